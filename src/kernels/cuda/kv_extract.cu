// Paged cache -> records: the inverse of kv_inject.cu, with the same places for threads.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {
namespace {

// Rows that a thread has under way at once (kv_inject.cu).
constexpr int kRowsAhead = 2;

// Returns how many of the eight were clipped.
__device__ uint32_t QuantiseKey(Eight& x, const KeyQuant* channels, bool wide) {
  const float top = wide ? 255.0f : 15.0f;
  uint32_t clipped = 0;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(channels) + i);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 channel = __half22float2(As<__half2>(words[j]));
      // A division would take most of the kernel's time; the product's q is off by 2^-22 of it, 0.0001 at most.
      const float q = rintf((x.v[4 * i + j] - channel.y) * __frcp_rn(channel.x));
      clipped += q < 0.0f || q > top;
      x.v[4 * i + j] = fminf(fmaxf(q, 0.0f), top);
    }
  }
  return clipped;
}

__device__ float Largest(const Eight& a, const Eight& b) {
  float largest = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fmaxf(fabsf(a.v[i]), fabsf(b.v[i])));
  return largest;
}

// A V row is spread over `lanes` threads of a warp, a power of two: they agree on its scale. All threads of the warp
// call this. Returns the scale's bits.
__device__ __half RowScale(float largest, uint32_t lanes, bool wide) {
  for (uint32_t step = lanes / 2; step > 0; step /= 2) {
    largest = fmaxf(largest, __shfl_xor_sync(0xFFFFFFFF, largest, step));
  }
  return __float2half_rn(fminf(largest / (wide ? 127.0f : 7.0f), 65504.0f));  // the largest half
}

__device__ void QuantiseValue(Eight& x, __half stored, bool wide) {
  const float scale = __half2float(stored), top = wide ? 127.0f : 7.0f;
  const float inverse = scale > 0.0f ? __frcp_rn(scale) : 0.0f;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float q = fminf(fmaxf(rintf(x.v[i] * inverse), -top), top);
    x.v[i] = wide ? q : q + 8.0f;
  }
}

// A thread's two groups of a cache row.
struct RowBits {
  Bits group[2];
};

__device__ RowBits LoadRow(const uint8_t* from, const ThreadGroups& groups, CacheType type) {
  const uint32_t bytes = 8 * BytesPerElement(type);
  return {{LoadBits(from + groups.at[0] * bytes, bytes), LoadBits(from + groups.at[1] * bytes, bytes)}};
}

// What the extracting functions of one thread share.
template <bool kKey>
struct Extraction {
  const KvPlanView& plan;
  const ThreadPlace& place;
  const RecordRows& rows;
  PayloadEncoding encoding;
  const KeyQuant* calibration;
  bool quantises;  // some record of the launch: then whole warps do V rows
  uint32_t clipped = 0;

  // All threads of a warp call this for V, which they quantise together; `there`: this one has a row.
  __device__ void Store(const RowBits& row, const ThreadRope& rope, const BlockPair& pair, CacheType type, bool there) {
    Eight a = FromCache(row.group[0], type), b = FromCache(row.group[1], type);
    if (type == CacheType::kFp8E4m3) {
#pragma unroll
      for (int i = 0; i < 8; ++i) a.v[i] *= pair.scale[kKey], b.v[i] *= pair.scale[kKey];
    }
    if (kKey) rope.Apply(a, b);
    const bool wide = encoding == PayloadEncoding::kInt8;
    const __half scale = !kKey && quantises ? RowScale(there ? Largest(a, b) : 0.0f, place.lanes, wide) : __half{};
    if (!there) return;
    Bits first, second;
    if (encoding == PayloadEncoding::kBf16) {
      first = ToBf16(a), second = ToBf16(b);
    } else if (encoding == PayloadEncoding::kF16) {
      first = ToF16(a), second = ToF16(b);
    } else {
      if constexpr (kKey) {
        const KeyQuant* channels = calibration + (pair.layer * plan.shape.heads + pair.head) * plan.shape.key_dim;
        clipped += QuantiseKey(a, channels + 8 * rope.groups.at[0], wide);
        clipped += QuantiseKey(b, channels + 8 * rope.groups.at[1], wide);
      } else {
        QuantiseValue(a, scale, wide), QuantiseValue(b, scale, wide);
        if (place.lane == 0) *reinterpret_cast<__half*>(rows.Scale(pair.head, pair.layer)) = scale;
      }
      first = ToQuanta(a, wide), second = ToQuanta(b, wide);
    }
    uint8_t* to = rows.Row(pair.head, pair.layer);
    StoreBits(to + rope.groups.at[0] * rows.group_bytes, BitsPerElement(encoding), first);
    StoreBits(to + rope.groups.at[1] * rows.group_bytes, BitsPerElement(encoding), second);
  }
};

// Calls move(begin, end, cell, rope) for runs of the block's pairs whose layers share a table and a geometry: almost
// always all of them. cell: kNoCell for a thread without a token, and where the request has no block.
template <bool kKey, class Move>
__device__ void ForEachRun(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, uint32_t count,
                           bool inverse, Move move) {
  ThreadRope rope(place);
  for (uint32_t begin = 0, end = 0; begin < count; begin = end) {
    const uint32_t geometry = pairs[begin].geometry, table = pairs[begin].rope;
    while (end < count && pairs[end].geometry == geometry && pairs[end].rope == table) ++end;
    const int64_t cell = place.active ? CacheCell(plan, plan.layers[geometry], place.request, place.position) : kNoCell;
    if (kKey && cell != kNoCell) rope.Use(plan, place, table, inverse);
    move(begin, end, cell, rope);
  }
}

template <bool kKey, int kEncoding, int kType>
__device__ void MoveRows(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, uint32_t count) {
  const auto encoding = kEncoding == kAny ? place.encoding : static_cast<PayloadEncoding>(kEncoding);
  const RecordRows rows(plan, place, encoding);
  const KeyQuant* calibration =
      kKey && IsQuantised(encoding) && place.active ? plan.sources[place.source].calibration : nullptr;
  const bool quantises = kEncoding == kAny ? plan.quantised : IsQuantised(encoding);
  Extraction<kKey> extraction{plan, place, rows, encoding, calibration, quantises};
  ForEachRun<kKey>(
      plan, place, pairs, count, /*inverse=*/true,
      [&](uint32_t begin, uint32_t end, int64_t cell, const ThreadRope& rope) {
        const bool there = cell != kNoCell;
        for (uint32_t p = begin; p < end; p += kRowsAhead) {
          RowBits row[kRowsAhead] = {};
#pragma unroll
          for (int u = 0; u < kRowsAhead; ++u) {
            if (!there || p + u >= end) continue;
            const BlockPair& pair = pairs[p + u];
            row[u] =
                LoadRow(pair.row[kKey] + cell, rope.groups, kType == kAny ? pair.type : static_cast<CacheType>(kType));
          }
#pragma unroll
          for (int u = 0; u < kRowsAhead; ++u) {
            if (p + u >= end) continue;
            const BlockPair& pair = pairs[p + u];
            extraction.Store(row[u], rope, pair, kType == kAny ? pair.type : static_cast<CacheType>(kType), there);
          }
        }
      });
  if (extraction.clipped > 0) atomicAdd(plan.status + place.source, extraction.clipped);
}

template <int kEncoding, int kType>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerSm)
    ExtractVectors(const __grid_constant__ KvPlanView plan, PairChunks chunks) {
  __shared__ BlockPair pairs[kMaxPairsPerBlock];
  const BlockWork work(plan, chunks);
  FindPairs(plan, work, pairs);
  const ThreadPlace place = FindPlace(plan, work.tokens);
  __syncthreads();
  const uint32_t count = work.end - work.begin;
  // A warp has K rows or V rows when V is quantised (kv_plan_check.cc sees to it), so its threads stay together.
  if (place.key) {
    MoveRows<true, kEncoding, kType>(plan, place, pairs, count);
  } else {
    MoveRows<false, kEncoding, kType>(plan, place, pairs, count);
  }
}

struct Launch {
  template <int kEncoding, int kType>
  static void Run(const KvPlanView& plan, cudaStream_t stream, uint32_t blocks, PairChunks chunks) {
    ExtractVectors<kEncoding, kType><<<blocks, kBlockThreads, 0, stream>>>(plan, chunks);
  }
};

}  // namespace

int ExtractCuda(const KvPlanView& plan, CUstream_st* stream) {
  if (plan.token_count == 0 || plan.layer_count == 0) return cudaSuccess;
  return plan.vectors ? LaunchVectors<Launch>(plan, stream, {}) : ExtractRowsCuda(plan, stream);
}

}  // namespace inferscale::kernels
