// Paged cache -> records: the inverse of kv_inject.cu, with the same places for threads.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {
namespace {

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
      const float q = rintf((x.v[4 * i + j] - channel.y) / channel.x);
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
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const float q = scale > 0.0f ? fminf(fmaxf(rintf(x.v[i] / scale), -top), top) : 0.0f;
    x.v[i] = wide ? q : q + 8.0f;
  }
}

struct RowValues {
  Eight a, b;
};

__device__ RowValues LoadRow(const ThreadPlace& place, const ThreadRope& rope, uint32_t head, const CacheLayer& layer,
                             int64_t cell, CacheType type) {
  const uint8_t* from =
      layer.base + cell + head * layer.head_stride + (place.key ? layer.key_offset : layer.value_offset);
  const uint32_t bytes = 8 * BytesPerElement(type);
  RowValues row = {FromCache(LoadBits(from + rope.groups.at[0] * bytes, bytes), type),
                   FromCache(LoadBits(from + rope.groups.at[1] * bytes, bytes), type)};
  if (type == CacheType::kFp8E4m3) {
    const float scale = place.key ? layer.key_scale : layer.value_scale;
#pragma unroll
    for (int i = 0; i < 8; ++i) row.a.v[i] *= scale, row.b.v[i] *= scale;
  }
  if (place.key) rope.Apply(row.a, row.b);
  return row;
}

__device__ void StoreExact(const RecordRows& rows, const ThreadRope& rope, uint8_t* to, const RowValues& row,
                           bool bf16) {
  StoreBits(to + rope.groups.at[0] * rows.group_bytes, 16, bf16 ? ToBf16(row.a) : ToF16(row.a));
  StoreBits(to + rope.groups.at[1] * rows.group_bytes, 16, bf16 ? ToBf16(row.b) : ToF16(row.b));
}

// One pair of layer and head. Every thread of a warp is here: `there` says whether this one has a row.
template <int kEncoding, int kType>
__device__ void MoveRow(const KvPlanView& plan, const ThreadPlace& place, const RecordRows& rows, ThreadRope& rope,
                        uint32_t head, const CacheLayer& layer, int64_t cell, PayloadEncoding encoding, bool there,
                        uint32_t& clipped) {
  const auto type = kType == kAny ? layer.type : static_cast<CacheType>(kType);
  RowValues row = {};
  if (there) {
    rope.Use(plan, place, layer.rope, /*inverse=*/true);
    row = LoadRow(place, rope, head, layer, cell, type);
  }
  uint8_t* to = rows.Row(head, layer.record_layer);
  const bool wide = encoding == PayloadEncoding::kInt8, quantised = IsQuantised(encoding);
  __half scale = __float2half_rn(0.0f);
  // kAny: neighbours in a warp may have records of other encodings, so all of them take part.
  if (kEncoding == kAny || quantised) scale = RowScale(Largest(row.a, row.b), place.lanes, wide);
  if (!there) return;
  if (!quantised) return StoreExact(rows, rope, to, row, encoding == PayloadEncoding::kBf16);
  if (place.key) {
    const KeyQuant* channels = plan.sources[place.source].calibration +
                               (uint64_t{layer.record_layer} * plan.shape.heads + head) * plan.shape.key_dim;
    clipped += QuantiseKey(row.a, channels + 8 * rope.groups.at[0], wide);
    clipped += QuantiseKey(row.b, channels + 8 * rope.groups.at[1], wide);
  } else {
    QuantiseValue(row.a, scale, wide), QuantiseValue(row.b, scale, wide);
    if (place.lane == 0) *reinterpret_cast<__half*>(rows.Scale(head, layer.record_layer)) = scale;
  }
  StoreBits(to + rope.groups.at[0] * rows.group_bytes, BitsPerElement(encoding), ToQuanta(row.a, wide));
  StoreBits(to + rope.groups.at[1] * rows.group_bytes, BitsPerElement(encoding), ToQuanta(row.b, wide));
}

template <int kEncoding, int kType>
__global__ void __launch_bounds__(kBlockThreads, 3)
    ExtractVectors(const __grid_constant__ KvPlanView plan, uint32_t pairs_per_block) {
  const BlockWork work(plan, pairs_per_block);
  const ThreadPlace place = FindPlace(plan, work.tokens);
  const auto encoding = kEncoding == kAny ? place.encoding : static_cast<PayloadEncoding>(kEncoding);
  const RecordRows rows(plan, place, encoding);
  ThreadRope rope(place);
  ThreadCell cell;
  uint32_t clipped = 0;
  for (uint32_t pair = work.begin; pair < work.end; ++pair) {
    const uint32_t l = pair / plan.shape.heads;
    const CacheLayer& layer = plan.layers[l];
    const int64_t at = place.active ? cell.At(plan, layer, place) : kNoCell;
    MoveRow<kEncoding, kType>(plan, place, rows, rope, pair - l * plan.shape.heads, layer, at, encoding, at != kNoCell,
                              clipped);
  }
  if (clipped > 0) atomicAdd(plan.status + place.source, clipped);
}

struct Launch {
  template <int kEncoding, int kType>
  static void Run(const KvPlanView& plan, cudaStream_t stream, uint32_t blocks, uint32_t pairs_per_block) {
    ExtractVectors<kEncoding, kType><<<blocks, kBlockThreads, 0, stream>>>(plan, pairs_per_block);
  }
};

}  // namespace

int ExtractCuda(const KvPlanView& plan, CUstream_st* stream) {
  if (plan.token_count == 0 || plan.layer_count == 0) return cudaSuccess;
  return plan.vectors ? LaunchVectors<Launch>(plan, stream, {}) : ExtractRowsCuda(plan, stream);
}

}  // namespace inferscale::kernels
