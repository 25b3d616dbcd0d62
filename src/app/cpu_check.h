// Refuses a CPU without the instructions that this program was compiled for, with a sentence instead of SIGILL.
//
// Nobody calls it: cpu_check.cc is linked into the command, has a constructor of the first priority, so that the check
// runs before main and every static initialiser, and is compiled for the oldest x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale {

inline constexpr int kCpuExitStatus = 78;  // EX_CONFIG of sysexits.h: the program does not fit the machine

// What the CPUID instruction says, and what the operating system saves of it when it switches tasks.
struct CpuId {
  uint32_t leaf1_ecx = 0;
  uint32_t leaf7_ebx = 0;
  uint32_t leaf7_ecx = 0;
  uint32_t leaf7_1_eax = 0;
  uint32_t extended_ecx = 0;  // leaf 0x80000001
  uint64_t xcr0 = 0;          // 0 where XGETBV does not exist
};
CpuId ReadCpuId();

// Writes those names of `required` (separated by spaces: "avx2 fma"; compiler macros in lower case) that `cpu` lacks to
// `missing` [size], separated by spaces and ended by 0, and returns how many they are. A name that nobody knows is
// missing too: the list comes from our own build, so it is better noticed. What does not fit is counted, not written.
int MissingCpuFeatures(const char* required, const CpuId& cpu, char* missing, size_t size);

// What this program was compiled for; "" when unknown or not x86-64.
const char* RequiredCpuFeatures();

}  // namespace inferscale
