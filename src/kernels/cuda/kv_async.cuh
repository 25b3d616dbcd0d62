// Copies from global to shared memory that run while the thread goes on (sm_80 and later): a thread's bytes under way
// need no registers. A thread waits for its own copies only.
#pragma once

#include <cstdint>

namespace inferscale::kernels {

// kBytes: 4, 8 or 16, to which both addresses are aligned.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* global) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
  }
}

// Ends a group of copies.
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Until all but the newest kGroups groups have arrived.
template <int kGroups>
__device__ inline void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kGroups) : "memory");
}

}  // namespace inferscale::kernels
