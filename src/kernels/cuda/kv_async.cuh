// Copies from global to shared memory that run while the thread goes on, and the barriers that tell when they have
// arrived. sm_80 has copies of 4 to 16 bytes; sm_90 and later copy any multiple of 16 bytes with one instruction.
#pragma once

#include <cstdint>

namespace inferscale::kernels {

// In shared memory. A phase of the barrier ends when its arrivals, and the bytes that were announced to it, are in.
struct Barrier {
  uint64_t word;
};

__device__ inline uint32_t SharedAddress(const void* shared) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(shared));
}

// By one thread, before a __syncthreads().
__device__ inline void InitBarrier(Barrier* barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(SharedAddress(barrier)), "r"(arrivals) : "memory");
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#endif
}

__device__ inline void Arrive(Barrier* barrier) {
  asm volatile("{ .reg .b64 state; mbarrier.arrive.shared.b64 state, [%0]; }" ::"r"(SharedAddress(barrier)) : "memory");
}

// Arrives when the thread's own CopyAsync so far have.
__device__ inline void ArriveWhenCopied(Barrier* barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(SharedAddress(barrier)) : "memory");
}

// Waits for the end of the phase of this parity: 0 for the first, 1 for the second and so on.
__device__ inline void Await(Barrier* barrier, uint32_t parity) {
  uint32_t done = 0;
  while (done == 0) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(SharedAddress(barrier)), "r"(parity)
                 : "memory");
#else
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(SharedAddress(barrier)), "r"(parity)
                 : "memory");
#endif
  }
}

// kBytes: 4, 8 or 16, to which both addresses are aligned.
template <int kBytes>
__device__ inline void CopyAsync(void* shared, const void* global) {
  const uint32_t to = SharedAddress(shared);
  if constexpr (kBytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(global), "n"(kBytes) : "memory");
  }
}

// What a bulk copy or store tells L2: lines to be given up before others, or as any.
__device__ inline uint64_t CachePolicy(bool once) {
  uint64_t policy = 0;
#if __CUDA_ARCH__ >= 900
  if (once) {
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  } else {
    asm("createpolicy.fractional.L2::evict_normal.b64 %0, 1.0;" : "=l"(policy));
  }
#endif
  return policy;
}

// One thread copies `bytes`, a multiple of 16 with both addresses aligned to 16. They are announced to `barrier`, where
// the thread has yet to arrive (ArriveWhenCopied).
__device__ inline void CopyBulk(void* shared, const void* global, uint32_t bytes, Barrier* barrier, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  const uint32_t at = SharedAddress(barrier);
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::
          "r"(SharedAddress(shared)),
      "l"(global), "r"(bytes), "r"(at), "l"(policy)
      : "memory");
#else
  for (uint32_t i = 0; i < bytes; i += 16) {
    CopyAsync<16>(static_cast<uint8_t*>(shared) + i, static_cast<const uint8_t*>(global) + i);
  }
#endif
}

// Whether a thread can store a piece of shared memory with one instruction.
#if __CUDA_ARCH__ >= 900
inline constexpr bool kStoresBulk = true;
#else
inline constexpr bool kStoresBulk = false;
#endif

// One thread stores `bytes`, a multiple of 16 with both addresses aligned to 16. What other threads wrote there, they
// wrote before a FenceBulk of their own and a barrier.
__device__ inline void StoreBulk(void* global, const void* shared, uint32_t bytes, uint64_t policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%0], [%1], %2, %3;" ::"l"(global),
               "r"(SharedAddress(shared)), "r"(bytes), "l"(policy)
               : "memory");
#endif
}
__device__ inline void FenceBulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// CommitBulk ends a group of the thread's StoreBulk, AwaitBulk waits until all groups but the last kLeft have been read
// from shared memory.
__device__ inline void CommitBulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}
template <int kLeft>
__device__ inline void AwaitBulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(kLeft) : "memory");
#endif
}

// `threads`, whole warps, meet at barrier `id`: 1 to 15.
__device__ inline void Meet(uint32_t id, uint32_t threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace inferscale::kernels
