// The lists of one query to its results: one block per query.
#pragma once

#include <cstdint>

#include "kernels/cuda/topk_lists.cuh"

namespace inferscale::kernels {

constexpr uint32_t kMergeThreads = 1024;
constexpr uint32_t kMergeBins = 2048;   // two for each thread
constexpr uint32_t kMergeSlices = 264;  // kScoreBlocks (topk.cu)
constexpr uint32_t kMergeLoads = 4;     // under way at once

struct MergeMemory {
  uint64_t keys[kSortKeys];
  uint32_t bins[kMergeBins];
  uint32_t counts[kMergeSlices];
  uint32_t warp_sums[32];
  uint64_t least, largest;
  uint32_t total, taken, bin, above, inside;
};

class Merge {
 public:
  __device__ Merge(const TopkArgs& args, const TopkWork& work, MergeMemory& memory, uint32_t query)
      : work_(work), memory_(memory), lists_(work.List(query, 0)), wanted_(args.k) {
    if (threadIdx.x == 0) memory_.total = memory_.taken = 0, memory_.least = ~uint64_t{0}, memory_.largest = 0;
    __syncthreads();
    for (uint32_t s = threadIdx.x; s < work.slices; s += kMergeThreads) {
      memory_.counts[s] = work.counts[query * work.slices + s];
      atomicAdd(&memory_.total, memory_.counts[s]);
    }
    __syncthreads();
  }

  // Leaves the keys that matter, at most kSortKeys and best first, in memory.keys. Returns their number.
  __device__ uint32_t Run() {
    const uint64_t bound = memory_.total > kSortKeys ? FindBound() : 0;
    ForEachKey([&](uint64_t key) {
      if (key < bound) return;
      // Lanes that are here together take their places at once: an atomic each would wait for the others.
      const uint32_t lanes = __activemask(), before = __popc(lanes & ((1u << threadIdx.x % 32) - 1));
      uint32_t place = 0;
      if (before == 0) place = atomicAdd(&memory_.taken, __popc(lanes));
      memory_.keys[__shfl_sync(lanes, place, __ffs(lanes) - 1) + before] = key;
    });
    __syncthreads();
    Sort(memory_.taken);
    __syncthreads();
    return memory_.taken;
  }

 private:
  template <class F>
  __device__ void ForEachKey(F use) {
    const uint32_t places = work_.slices * work_.longest;
    for (uint32_t first = threadIdx.x; first < places; first += kMergeThreads * kMergeLoads) {
      uint64_t key[kMergeLoads];
#pragma unroll
      for (uint32_t u = 0; u < kMergeLoads; ++u) {
        const uint32_t place = first + u * kMergeThreads, slice = place / work_.longest;
        const uint32_t i = place - slice * work_.longest;
        key[u] = place < places && i < memory_.counts[slice] ? lists_[uint64_t{slice} * work_.capacity + i] : 0;
      }
#pragma unroll
      for (uint32_t u = 0; u < kMergeLoads; ++u) {
        if (key[u] != 0) use(key[u]);
      }
    }
  }

  __device__ void FindRange() {
    uint64_t least = ~uint64_t{0}, largest = 0;
    ForEachKey([&](uint64_t key) { least = min(least, key), largest = max(largest, key); });
    for (int step = 16; step > 0; step /= 2) {
      least = min(least, __shfl_xor_sync(0xFFFFFFFF, least, step));
      largest = max(largest, __shfl_xor_sync(0xFFFFFFFF, largest, step));
    }
    if (threadIdx.x % 32 == 0) {
      atomicMin(reinterpret_cast<unsigned long long*>(&memory_.least), least);
      atomicMax(reinterpret_cast<unsigned long long*>(&memory_.largest), largest);
    }
    __syncthreads();
  }

  // A number that at least k keys reach, and at most kSortKeys. Keys between the smallest and the largest are counted
  // in equal bins; then those in the bin with the k-th, until few enough are left. Bins of one key end it.
  __device__ uint64_t FindBound() {
    FindRange();
    uint64_t least = memory_.least, largest = memory_.largest;
    uint32_t above = 0;  // keys > largest
    for (;;) {
      const int bits = 64 - __clzll(static_cast<long long>(largest - least));
      const int shift = bits > 11 ? bits - 11 : 0;  // 2^11 bins
      for (uint32_t b = threadIdx.x; b < kMergeBins; b += kMergeThreads) memory_.bins[b] = 0;
      __syncthreads();
      ForEachKey([&](uint64_t key) {
        if (key >= least && key <= largest) atomicAdd(&memory_.bins[(key - least) >> shift], 1);
      });
      __syncthreads();
      FindBin(wanted_ - above);
      least += uint64_t{memory_.bin} << shift;
      largest = min(largest, least + ((uint64_t{1} << shift) - 1));
      above += memory_.above;
      if (above + memory_.inside <= kSortKeys) return least;
      __syncthreads();
    }
  }

  // The bin of the `rank`-th largest key: memory.bin; keys in higher bins: above; in it: inside.
  __device__ void FindBin(uint32_t rank) {
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t top = kMergeBins - 1 - 2 * threadIdx.x;  // this thread's: top and top - 1
    const uint32_t first = memory_.bins[top], both = first + memory_.bins[top - 1];
    uint32_t sum = both;
    for (int step = 1; step < 32; step *= 2) {
      const uint32_t other = __shfl_up_sync(0xFFFFFFFF, sum, step);
      if (lane >= step) sum += other;
    }
    if (lane == 31) memory_.warp_sums[warp] = sum;
    __syncthreads();
    uint32_t above = sum - both;
    for (uint32_t w = 0; w < warp; ++w) above += memory_.warp_sums[w];
    if (above < rank && rank <= above + both) {
      const bool second = rank > above + first;
      memory_.bin = top - second;
      memory_.above = above + (second ? first : 0);
      memory_.inside = second ? both - first : first;
    }
    __syncthreads();
  }

  // Bitonic, by as many threads as have something to compare.
  __device__ void Sort(uint32_t count) {
    uint32_t size = 64;
    while (size < count) size *= 2;
    const bool compares = threadIdx.x < size / 2;
    for (uint32_t i = count + threadIdx.x; i < size; i += kMergeThreads) memory_.keys[i] = 0;
    for (uint32_t run = 2; run <= size; run *= 2) {
      for (uint32_t step = run / 2; step > 0; step /= 2) {
        __syncthreads();
        if (!compares) continue;
        const uint32_t low = 2 * threadIdx.x - (threadIdx.x & (step - 1)), high = low + step;
        const uint64_t a = memory_.keys[low], b = memory_.keys[high];
        const bool descending = (low & run) == 0;
        if (descending ? a < b : a > b) memory_.keys[low] = b, memory_.keys[high] = a;
      }
    }
  }

  const TopkWork& work_;
  MergeMemory& memory_;
  const uint64_t* lists_;  // of the query
  const uint32_t wanted_;
};

}  // namespace inferscale::kernels
