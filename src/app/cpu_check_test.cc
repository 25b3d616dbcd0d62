#include "app/cpu_check.h"

#include <gtest/gtest.h>

#include <string>

namespace inferscale {
namespace {

constexpr uint64_t kXmmYmm = 0x7;
constexpr uint64_t kXmmYmmZmm = 0xe7;

// Intel Haswell, the first x86-64-v3 CPU: the bits of its data sheet.
CpuId Haswell() {
  CpuId cpu;
  cpu.leaf1_ecx = 0x7ffafbff;
  cpu.leaf7_ebx = 0x000027ab;
  cpu.extended_ecx = 0x21;
  cpu.xcr0 = kXmmYmm;
  return cpu;
}

std::string Missing(const char* required, const CpuId& cpu) {
  char text[256];
  int count = MissingCpuFeatures(required, cpu, text, sizeof(text));
  return std::to_string(count) + ":" + text;
}

TEST(CpuCheck, HaswellHasX86V3) {
  EXPECT_EQ(Missing("avx avx2 bmi bmi2 f16c fma lzcnt movbe popcnt sse3 sse4_1 sse4_2 ssse3", Haswell()), "0:");
}

TEST(CpuCheck, NamesWhatIsMissing) {
  EXPECT_EQ(Missing("avx2 avx512f fma avx512bw", Haswell()), "2:avx512f avx512bw");
  EXPECT_EQ(Missing("sse3 avx", CpuId{}), "2:sse3 avx");
}

TEST(CpuCheck, RegistersThatTheSystemDoesNotSaveCannotBeUsed) {
  CpuId cpu = Haswell();
  cpu.xcr0 = 0x3;  // an operating system, or a virtual machine, without AVX
  EXPECT_EQ(Missing("sse4_2 avx2 fma bmi2", cpu), "2:avx2 fma");
  cpu = Haswell();
  cpu.leaf7_ebx |= 1u << 16;
  EXPECT_EQ(Missing("avx512f", cpu), "1:avx512f");
  cpu.xcr0 = kXmmYmmZmm;
  EXPECT_EQ(Missing("avx512f", cpu), "0:");
}

TEST(CpuCheck, UnknownNamesAndNamesThatOnlyBeginAlikeAreMissing) {
  EXPECT_EQ(Missing("avx23", Haswell()), "1:avx23");
  EXPECT_EQ(Missing("av", Haswell()), "1:av");
  EXPECT_EQ(Missing("amx_tile", Haswell()), "1:amx_tile");
}

TEST(CpuCheck, EmptyListsAndSpaces) {
  EXPECT_EQ(Missing("", CpuId{}), "0:");
  EXPECT_EQ(Missing("  ", CpuId{}), "0:");
  EXPECT_EQ(Missing(" avx2  fma ", Haswell()), "0:");
}

TEST(CpuCheck, CountsWhatDoesNotFit) {
  char text[8];
  EXPECT_EQ(MissingCpuFeatures("avx512f avx2", CpuId{}, text, sizeof(text)), 2);
  EXPECT_STREQ(text, "avx2");
  EXPECT_EQ(MissingCpuFeatures("avx2", CpuId{}, text, 0), 1);
}

TEST(CpuCheck, ThisMachineRunsThisProgram) { EXPECT_EQ(Missing(RequiredCpuFeatures(), ReadCpuId()), "0:"); }

#if defined(__x86_64__)
TEST(CpuCheck, AgreesWithTheCompilersOwnTest) {
  __builtin_cpu_init();
  CpuId cpu = ReadCpuId();
  EXPECT_EQ(Missing("avx2", cpu) == "0:", __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(Missing("fma", cpu) == "0:", __builtin_cpu_supports("fma") != 0);
  EXPECT_EQ(Missing("bmi2", cpu) == "0:", __builtin_cpu_supports("bmi2") != 0);
  EXPECT_EQ(Missing("popcnt", cpu) == "0:", __builtin_cpu_supports("popcnt") != 0);
  EXPECT_EQ(Missing("avx512f", cpu) == "0:", __builtin_cpu_supports("avx512f") != 0);
  EXPECT_EQ(Missing("avx512vnni", cpu) == "0:", __builtin_cpu_supports("avx512vnni") != 0);
}
#endif

}  // namespace
}  // namespace inferscale
