// Records -> paged cache. docs/cuda.md explains the design; kv_thread.cuh how threads are placed.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_stamp.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {
namespace {

// Rows that a thread has under way at once. 4.2 TB/s times 0.7 µs from a load to its data are 3 MB in flight, half of
// it reads: 11 KB for each of 132 multiprocessors. 1,024 threads with 2 rows of 32 bytes have 64 KB.
#ifndef INFERSCALE_KV_ROWS_AHEAD
#define INFERSCALE_KV_ROWS_AHEAD 2
#define INFERSCALE_KV_BLOCKS 4
#endif
constexpr int kRowsAhead = INFERSCALE_KV_ROWS_AHEAD;
constexpr int kBlocksPerSm = INFERSCALE_KV_BLOCKS;

// A thread's two groups of a row.
struct RowBits {
  Bits group[2];
  float scale;  // of V, when quantised
};

template <bool kKey>
__device__ RowBits LoadRow(const RecordRows& rows, const ThreadGroups& groups, uint32_t head, uint32_t layer,
                           PayloadEncoding encoding) {
  RowBits row;
  const uint8_t* at = rows.Row(head, layer);
  row.group[0] = LoadBits(at + groups.at[0] * rows.group_bytes, BitsPerElement(encoding));
  row.group[1] = LoadBits(at + groups.at[1] * rows.group_bytes, BitsPerElement(encoding));
  row.scale = 0;
  if (!kKey && IsQuantised(encoding))
    row.scale = __half2float(*reinterpret_cast<const __half*>(rows.Scale(head, layer)));
  return row;
}

// Eight channels: {scale, zero} each.
__device__ void Dequantise(Eight& x, const KeyQuant* channels) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 four = __ldg(reinterpret_cast<const uint4*>(channels) + i);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 channel = __half22float2(As<__half2>(words[j]));
      x.v[4 * i + j] = fmaf(x.v[4 * i + j], channel.x, channel.y);
    }
  }
}

// channels: of the row's first element; only for keys that are quantised.
template <bool kKey>
__device__ Eight Decode(const Bits& bits, float scale, const KeyQuant* channels, PayloadEncoding encoding) {
  if (encoding == PayloadEncoding::kBf16) return FromBf16(bits);
  if (encoding == PayloadEncoding::kF16) return FromF16(bits);
  const bool wide = encoding == PayloadEncoding::kInt8;
  if constexpr (kKey) {
    Eight x = FromQuanta(bits, wide);
    Dequantise(x, channels);
    return x;
  }
  Eight x = FromSignedQuanta(bits, wide);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.v[i] *= scale;
  return x;
}

// to: the cache's row. rope: has the layer's table.
template <bool kKey>
__device__ void StoreRow(const RowBits& row, const ThreadRope& rope, uint8_t* to, const KeyQuant* channels, float scale,
                         PayloadEncoding encoding, CacheType type) {
  const uint32_t bytes = 8 * BytesPerElement(type);
  uint8_t* first = to + rope.groups.at[0] * bytes;
  uint8_t* second = to + rope.groups.at[1] * bytes;
  if (SameBits(encoding, type) && !(kKey && rope.groups.turns[0])) {
    StoreBits(first, bytes, row.group[0]);
    StoreBits(second, bytes, row.group[1]);
    return;
  }
  Eight a = Decode<kKey>(row.group[0], row.scale, channels + 8 * rope.groups.at[0], encoding);
  Eight b = Decode<kKey>(row.group[1], row.scale, channels + 8 * rope.groups.at[1], encoding);
  if constexpr (kKey) rope.Apply(a, b);
  if (type == CacheType::kFp8E4m3) {
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] *= 1.0f / scale, b.v[i] *= 1.0f / scale;
  }
  StoreBits(first, bytes, ToCache(a, type));
  StoreBits(second, bytes, ToCache(b, type));
}

// The K rows or the V rows of a thread: pairs [begin, end).
template <bool kKey, int kEncoding, int kType>
__device__ void MoveRows(const KvPlanView& plan, const ThreadPlace& place, uint32_t begin, uint32_t end) {
  const auto encoding = kEncoding == kAny ? place.encoding : static_cast<PayloadEncoding>(kEncoding);
  const RecordRows rows(plan, place, encoding);
  const KeyQuant* calibration = kKey && IsQuantised(encoding) ? plan.sources[place.source].calibration : nullptr;
  ThreadRope rope(place);
  ThreadCell cell;
  for (uint32_t pair = begin; pair < end; pair += kRowsAhead) {
    RowBits row[kRowsAhead];
    uint8_t* to[kRowsAhead];
#pragma unroll
    for (int u = 0; u < kRowsAhead; ++u) {
      to[u] = nullptr;
      if (pair + u < end) {
        const uint32_t l = (pair + u) / plan.shape.heads, head = (pair + u) - l * plan.shape.heads;
        const CacheLayer& layer = plan.layers[l];
        const int64_t at = cell.At(plan, layer, place);
        if (at != kNoCell) {
          to[u] = layer.base + at + head * layer.head_stride + (kKey ? layer.key_offset : layer.value_offset);
          const ThreadGroups groups = kKey ? rope.Groups(plan, place, layer.rope) : rope.groups;
          row[u] = LoadRow<kKey>(rows, groups, head, layer.record_layer, encoding);
        }
      }
    }
#pragma unroll
    for (int u = 0; u < kRowsAhead; ++u) {
      if (to[u] != nullptr) {
        const uint32_t l = (pair + u) / plan.shape.heads, head = (pair + u) - l * plan.shape.heads;
        const CacheLayer& layer = plan.layers[l];
        if (kKey) rope.Use(plan, place, layer.rope, /*inverse=*/false);
        const KeyQuant* channels =
            calibration + (uint64_t{layer.record_layer} * plan.shape.heads + head) * plan.shape.key_dim;
        StoreRow<kKey>(row[u], rope, to[u], channels, kKey ? layer.key_scale : layer.value_scale, encoding,
                       kType == kAny ? layer.type : static_cast<CacheType>(kType));
      }
    }
  }
}

template <int kEncoding, int kType>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerSm)
    InjectVectors(const __grid_constant__ KvPlanView plan, uint32_t pairs_per_block) {
  const BlockWork work(plan, pairs_per_block);
  const ThreadPlace place = FindPlace(plan, work.tokens);
  const bool checks = place.active && place.key && place.lane == 0;
  if (checks) CheckStamps(plan, place.source, kStampChangedBefore);
  if (place.active && place.key) MoveRows<true, kEncoding, kType>(plan, place, work.begin, work.end);
  if (place.active && !place.key) MoveRows<false, kEncoding, kType>(plan, place, work.begin, work.end);
  // All of the block's reads have arrived: what was stored depends on them.
  __syncthreads();
  if (checks) CheckStamps(plan, place.source, kStampChangedAfter);
}

struct Launch {
  template <int kEncoding, int kType>
  static void Run(const KvPlanView& plan, cudaStream_t stream, uint32_t blocks, uint32_t pairs_per_block) {
    InjectVectors<kEncoding, kType><<<blocks, kBlockThreads, 0, stream>>>(plan, pairs_per_block);
  }
};

}  // namespace

int InjectCuda(const KvPlanView& plan, CUstream_st* stream, KvLaunchOptions options) {
  if (plan.token_count == 0 || plan.layer_count == 0) return cudaSuccess;
  return plan.vectors ? LaunchVectors<Launch>(plan, stream, options) : InjectRowsCuda(plan, stream);
}

int InjectCuda(const KvPlanView& plan, CUstream_st* stream) { return InjectCuda(plan, stream, {}); }

}  // namespace inferscale::kernels
