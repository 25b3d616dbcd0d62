// Lists of candidates: one per query and slice of the rows, in the workspace. A block alone writes its lists; they stay
// in its L1 and in L2, since few rows are candidates once a list has its first k.
#pragma once

#include <cstdint>

#include "kernels/cuda/topk_tile.cuh"
#include "kernels/topk.h"

namespace inferscale::kernels {

// Keys that the merging block sorts: two for each of its 1,024 threads.
constexpr uint32_t kSortKeys = 2048;

struct TopkWork {
  uint64_t* keys;    // [query_count][slices][capacity]
  uint32_t* counts;  // [query_count][slices]
  uint32_t tile_queries;
  uint32_t groups;    // of tile_queries queries
  uint32_t slices;    // block b: queries of group b % groups, tiles b / groups, + slices, + 2 * slices, …
  uint32_t trigger;   // a list that is longer after a tile is cut to its best
  uint32_t most;      // keys that a cut leaves: k to so many
  uint32_t capacity;  // trigger + kTileRows: a tile adds one key per row at most
  uint32_t longest;   // keys of a list when its block ends: `most` where lists are cut then, else capacity

  INFERSCALE_HD uint64_t* List(uint32_t query, uint32_t slice) const {
    return keys + (uint64_t{query} * slices + slice) * capacity;
  }
};

// Keys that a warp cuts in registers: 8 a lane, enough for a k of 64.
constexpr int kLaneKeys = 8;

// By one warp, over the keys that visit(use) shows to its lanes: a number that k of them reach, and `most` at most
// (most >= k; all keys are different). Bit by bit from the first in which two keys differ: when most - k are a third of
// the keys, some 5 bits are enough.
template <class Visit>
__device__ inline uint64_t BoundOf(Visit visit, uint32_t k, uint32_t most) {
  uint64_t all = ~uint64_t{0}, any = 0;
  visit([&](uint64_t key) { all &= key, any |= key; });
  const auto both = [](uint64_t key, auto reduce) {
    return uint64_t{reduce(static_cast<uint32_t>(key >> 32))} << 32 | reduce(static_cast<uint32_t>(key));
  };
  all = both(all, [](uint32_t half) { return __reduce_and_sync(0xFFFFFFFF, half); });
  any = both(any, [](uint32_t half) { return __reduce_or_sync(0xFFFFFFFF, half); });
  const int first = 63 - __clzll(static_cast<long long>(all ^ any));
  uint64_t bound = first == 63 ? 0 : all >> (first + 1) << (first + 1);
  for (int bit = first; bit >= 0; --bit) {
    const uint64_t trial = bound | uint64_t{1} << bit;
    uint32_t reach = 0;
    visit([&](uint64_t key) { reach += key >= trial; });
    reach = __reduce_add_sync(0xFFFFFFFF, reach);
    if (reach >= k) bound = trial;
    if (reach >= k && reach <= most) break;
  }
  return bound;
}

// By one warp, count > most >= k: keeps the keys that reach a bound, k to `most` of them, in no order. `kept`: their
// number. Returns the bound.
__device__ inline uint64_t CutList(uint64_t* list, uint32_t count, uint32_t k, uint32_t most, uint32_t* kept) {
  const uint32_t lane = threadIdx.x % 32;
  *kept = 0;
  const auto keep = [&](uint64_t key, bool good) {
    const uint32_t votes = __ballot_sync(0xFFFFFFFF, good);
    if (good) list[*kept + __popc(votes & ((1u << lane) - 1))] = key;
    *kept += __popc(votes);
  };
  if (count <= 32 * kLaneKeys) {
    uint64_t keys[kLaneKeys];
#pragma unroll
    for (int i = 0; i < kLaneKeys; ++i) keys[i] = i * 32 + lane < count ? list[i * 32 + lane] : 0;
    const uint64_t bound = BoundOf(
        [&](auto use) {
#pragma unroll
          for (int i = 0; i < kLaneKeys; ++i) {
            if (i * 32 + lane < count) use(keys[i]);
          }
        },
        k, most);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kLaneKeys; ++i) keep(keys[i], i * 32 + lane < count && keys[i] >= bound);
    return bound;
  }
  const uint64_t bound = BoundOf(
      [&](auto use) {
        for (uint32_t i = lane; i < count; i += 32) use(list[i]);
      },
      k, most);
  for (uint32_t first = 0; first < count; first += 32) {
    const uint64_t key = first + lane < count ? list[first + lane] : 0;
    keep(key, first + lane < count && key >= bound);  // written places are behind those still to be read
    __syncwarp();
  }
  return bound;
}

// In shared memory: a block's lists.
template <int kQueries>
struct BlockLists {
  uint32_t count[kQueries];
  uint32_t order[kQueries];  // TopkOrder that a row must reach; 0xFFFFFFFF: there is no such query
  float least[kQueries];     // the same as a score, to be looked at first: !(score < least)
  float scale[kQueries];     // of the query

  __device__ void Begin(const TopkArgs& args, uint32_t first_query) {
    for (uint32_t q = threadIdx.x; q < kQueries; q += kScoreThreads) {
      const bool there = first_query + q < args.query_count;
      count[q] = 0;
      order[q] = there ? 0 : 0xFFFFFFFF;
      least[q] = __uint_as_float(there ? 0xFF800000u : 0x7F800000u);  // -infinity; infinity
      scale[q] = there && args.query_scales != nullptr ? args.query_scales[first_query + q] : 1.0f;
    }
  }

  // Returns whether the list has to be cut before the next tile.
  __device__ bool Offer(const TopkArgs& args, const TopkWork& work, uint64_t* list, uint32_t q, uint32_t row,
                        float score) {
    if (row >= args.rows || !IsTopkCandidate(args, row)) return false;
    if (TopkOrder(score) < order[q]) return false;
    const uint32_t at = atomicAdd(&count[q], 1);
    list[at] = TopkKey(score, row);
    return at >= work.trigger;
  }

  // All threads, between two barriers: lists of more than `longest` keys are cut.
  __device__ void Cut(const TopkArgs& args, const TopkWork& work, uint32_t first_query, uint32_t slice,
                      uint32_t longest) {
    for (uint32_t q = threadIdx.x / 32; q < kQueries; q += kScoreThreads / 32) {
      if (count[q] <= longest) continue;
      uint32_t kept = 0;
      const uint64_t bound = CutList(work.List(first_query + q, slice), count[q], args.k, work.most, &kept);
      __syncwarp();
      if (threadIdx.x % 32 != 0) continue;
      count[q] = kept;
      // Rows to come are later ones: with an equal score they lose.
      order[q] = static_cast<uint32_t>(bound >> 32) + 1;
      least[q] = TopkScore(bound);  // NaN where the worst is one: then every row is looked at twice
    }
  }
};

}  // namespace inferscale::kernels
