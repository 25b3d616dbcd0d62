#include "app/cpu_check.h"

#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

// This file must not use anything inline of the standard library: the linker keeps one copy of an inline function of
// all files that have it, and that copy may be one compiled for the newer CPU. Hence char pointers and loops.

#ifndef INFERSCALE_CPU_FEATURES
#define INFERSCALE_CPU_FEATURES ""
#endif

namespace inferscale {
namespace {

// XCR0: the registers that the operating system saves. XMM and YMM for AVX; opmask and both halves of ZMM for AVX-512.
constexpr uint64_t kSavesNothing = 0;
constexpr uint64_t kSavesYmm = 0x6;
constexpr uint64_t kSavesZmm = 0xe6;

struct Feature {
  const char* name;
  uint32_t CpuId::*word;
  int bit;
  uint64_t saved;
};

constexpr Feature kFeatures[] = {
    {"sse3", &CpuId::leaf1_ecx, 0, kSavesNothing},        {"ssse3", &CpuId::leaf1_ecx, 9, kSavesNothing},
    {"fma", &CpuId::leaf1_ecx, 12, kSavesYmm},            {"sse4_1", &CpuId::leaf1_ecx, 19, kSavesNothing},
    {"sse4_2", &CpuId::leaf1_ecx, 20, kSavesNothing},     {"movbe", &CpuId::leaf1_ecx, 22, kSavesNothing},
    {"popcnt", &CpuId::leaf1_ecx, 23, kSavesNothing},     {"avx", &CpuId::leaf1_ecx, 28, kSavesYmm},
    {"f16c", &CpuId::leaf1_ecx, 29, kSavesYmm},           {"bmi", &CpuId::leaf7_ebx, 3, kSavesNothing},
    {"avx2", &CpuId::leaf7_ebx, 5, kSavesYmm},            {"bmi2", &CpuId::leaf7_ebx, 8, kSavesNothing},
    {"avx512f", &CpuId::leaf7_ebx, 16, kSavesZmm},        {"avx512dq", &CpuId::leaf7_ebx, 17, kSavesZmm},
    {"avx512cd", &CpuId::leaf7_ebx, 28, kSavesZmm},       {"avx512bw", &CpuId::leaf7_ebx, 30, kSavesZmm},
    {"avx512vl", &CpuId::leaf7_ebx, 31, kSavesZmm},       {"avx512vbmi", &CpuId::leaf7_ecx, 1, kSavesZmm},
    {"avx512vnni", &CpuId::leaf7_ecx, 11, kSavesZmm},     {"avxvnni", &CpuId::leaf7_1_eax, 4, kSavesYmm},
    {"avx512bf16", &CpuId::leaf7_1_eax, 5, kSavesZmm},    {"lzcnt", &CpuId::extended_ecx, 5, kSavesNothing},
};

// Whether `name` [length] is all of `other`.
bool Same(const char* name, size_t length, const char* other) {
  size_t i = 0;
  while (i < length && other[i] == name[i]) ++i;
  return i == length && other[i] == 0;
}

bool Has(const CpuId& cpu, const char* name, size_t length) {
  for (const Feature& feature : kFeatures) {
    if (!Same(name, length, feature.name)) continue;
    return (cpu.*feature.word >> feature.bit & 1) != 0 && (cpu.xcr0 & feature.saved) == feature.saved;
  }
  return false;
}

size_t Length(const char* text) {
  size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

void Say(const char* text) {
  if (write(STDERR_FILENO, text, Length(text)) < 0) _exit(kCpuExitStatus);
}

// Priority 101 is the first that a program may have: before every other static initialiser.
__attribute__((constructor(101))) void CheckCpuBeforeAnythingElse() {
  char missing[512];
  if (MissingCpuFeatures(RequiredCpuFeatures(), ReadCpuId(), missing, sizeof(missing)) == 0) return;
  Say("inferscale: this program was compiled for a CPU with instructions that this one lacks: ");
  Say(missing);
  Say("\nBuild it on this machine (make build), or take the build for x86-64-v3 (make release: Intel Haswell, AMD Zen "
      "or newer).\n");
  _exit(kCpuExitStatus);
}

}  // namespace

CpuId ReadCpuId() {
  CpuId cpu;
#if defined(__x86_64__)
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) cpu.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    cpu.leaf7_ebx = b;
    cpu.leaf7_ecx = c;
  }
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) cpu.leaf7_1_eax = a;
  if (__get_cpuid(0x80000001, &a, &b, &c, &d)) cpu.extended_ecx = c;
  constexpr uint32_t kOsxsave = 1u << 27;  // XGETBV exists, and the operating system uses it
  if (cpu.leaf1_ecx & kOsxsave) {
    __asm__ volatile("xgetbv" : "=a"(a), "=d"(d) : "c"(0));
    cpu.xcr0 = uint64_t{d} << 32 | a;
  }
#endif
  return cpu;
}

int MissingCpuFeatures(const char* required, const CpuId& cpu, char* missing, size_t size) {
  int count = 0;
  size_t used = 0;
  if (size > 0) missing[0] = 0;
  while (*required != 0) {
    size_t length = 0;
    while (required[length] != 0 && required[length] != ' ') ++length;
    if (length > 0 && !Has(cpu, required, length)) {
      ++count;
      if (used + length + 2 <= size) {  // a space before and the 0 after
        if (used > 0) missing[used++] = ' ';
        for (size_t i = 0; i < length; ++i) missing[used++] = required[i];
        missing[used] = 0;
      }
    }
    required += length + (required[length] == ' ' ? 1 : 0);
  }
  return count;
}

const char* RequiredCpuFeatures() { return INFERSCALE_CPU_FEATURES; }

}  // namespace inferscale
