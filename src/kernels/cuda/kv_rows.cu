// Inject and extract for plans that vectors do not fit: odd head sizes, views that are not aligned. A thread moves one
// row element by element, which is slow and always right.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_stamp.cuh"
#include "kernels/cuda/kv_thread.cuh"

namespace inferscale::kernels {
namespace {

constexpr int kThreads = 128;

// One row of a record and of the cache.
struct RowPair {
  const KvPlanView* plan;
  KvPlanSpan span;
  const CacheLayer* layer;
  uint32_t position, head;
  bool key;
  uint8_t* record;  // the row
  uint8_t* scale;   // of a quantised V row
  uint8_t* cache;
  const KeyQuant* channels;  // of a quantised K row

  __device__ bool wide() const { return span.encoding == PayloadEncoding::kInt8; }
  __device__ uint32_t dim() const { return key ? plan->shape.key_dim : plan->shape.value_dim; }
};

// Row `index` of the plan: (token, layer, head, K or V), or false when the request has no block there.
__device__ bool FindRow(const KvPlanView& plan, uint64_t index, RowPair& row) {
  row.plan = &plan;
  row.key = index % 2 == 0;
  index /= 2;
  row.head = static_cast<uint32_t>(index % plan.shape.heads);
  index /= plan.shape.heads;
  row.layer = plan.layers + index % plan.layer_count;
  const auto token = static_cast<uint32_t>(index / plan.layer_count);
  row.span = FindSpan(plan, token);
  const uint32_t in_span = token - row.span.first;
  row.position = row.span.position + in_span;
  const int64_t cell = CacheCell(plan, *row.layer, row.span.request, row.position);
  if (cell == kNoCell) return false;
  row.cache = row.layer->base + cell + row.head * row.layer->head_stride +
              (row.key ? row.layer->key_offset : row.layer->value_offset);
  const PayloadLayout at = plan.Layout(row.span);
  const uint32_t layer = row.layer->record_layer, in_record = row.span.source_first + in_span;
  row.record = row.span.payload + (row.key ? at.Key(row.head, layer, in_record) : at.Value(row.head, layer, in_record));
  row.scale = row.span.payload + at.ValueScale(row.head, layer, in_record);
  row.channels =
      plan.sources[row.span.source].calibration + (uint64_t{layer} * plan.shape.heads + row.head) * plan.shape.key_dim;
  return true;
}

__device__ uint16_t Load16(const uint8_t* at) { return *reinterpret_cast<const uint16_t*>(at); }
__device__ float HalfAt(const uint8_t* at) { return __half2float(*reinterpret_cast<const __half*>(at)); }
__device__ float HalfOf(const uint16_t& bits) { return HalfAt(reinterpret_cast<const uint8_t*>(&bits)); }
__device__ float Bf16At(const uint8_t* at) { return __uint_as_float(uint32_t{Load16(at)} << 16); }

__device__ float ReadRecord(const RowPair& row, uint32_t d) {
  if (row.span.encoding == PayloadEncoding::kBf16) return Bf16At(row.record + 2 * d);
  if (row.span.encoding == PayloadEncoding::kF16) return HalfAt(row.record + 2 * d);
  const uint32_t q = row.wide() ? row.record[d] : row.record[d / 2] >> (d % 2 * 4) & 15u;
  if (row.key) return fmaf(static_cast<float>(q), HalfOf(row.channels[d].scale), HalfOf(row.channels[d].zero));
  return static_cast<float>(row.wide() ? int{static_cast<int8_t>(q)} : static_cast<int>(q) - 8) * HalfAt(row.scale);
}

__device__ void WriteQuantum(const RowPair& row, uint32_t d, int q) {
  if (row.wide()) {
    row.record[d] = static_cast<uint8_t>(q);
  } else {
    const uint32_t shift = d % 2 * 4;
    row.record[d / 2] =
        static_cast<uint8_t>((row.record[d / 2] & (0xF0u >> shift)) | static_cast<uint32_t>(q) << shift);
  }
}

// Returns whether a K value was clipped.
__device__ bool WriteRecord(const RowPair& row, uint32_t d, float x) {
  if (row.span.encoding == PayloadEncoding::kBf16) {
    *reinterpret_cast<__nv_bfloat16*>(row.record + 2 * d) = __float2bfloat16_rn(x);
    return false;
  }
  if (row.span.encoding == PayloadEncoding::kF16) {
    *reinterpret_cast<__half*>(row.record + 2 * d) = __float2half_rn(x);
    return false;
  }
  if (row.key) {
    const float top = row.wide() ? 255.0f : 15.0f;
    const float q = rintf((x - HalfOf(row.channels[d].zero)) / HalfOf(row.channels[d].scale));
    WriteQuantum(row, d, static_cast<int>(fminf(fmaxf(q, 0.0f), top)));
    return q < 0.0f || q > top;
  }
  const float scale = HalfAt(row.scale), top = row.wide() ? 127.0f : 7.0f;
  const float q = scale > 0.0f ? fminf(fmaxf(rintf(x / scale), -top), top) : 0.0f;
  WriteQuantum(row, d, static_cast<int>(q) + (row.wide() ? 0 : 8));
  return false;
}

__device__ float ReadCache(const RowPair& row, uint32_t d) {
  if (row.layer->type == CacheType::kBf16) return Bf16At(row.cache + 2 * d);
  if (row.layer->type == CacheType::kF16) return HalfAt(row.cache + 2 * d);
  const float scale = row.key ? row.layer->key_scale : row.layer->value_scale;
  return __half2float(__half(__nv_cvt_fp8_to_halfraw(row.cache[d], __NV_E4M3))) * scale;
}

__device__ void WriteCache(const RowPair& row, uint32_t d, float x) {
  if (row.layer->type == CacheType::kBf16) {
    *reinterpret_cast<__nv_bfloat16*>(row.cache + 2 * d) = __float2bfloat16_rn(x);
  } else if (row.layer->type == CacheType::kF16) {
    *reinterpret_cast<__half*>(row.cache + 2 * d) = __float2half_rn(x);
  } else {
    const float scale = row.key ? row.layer->key_scale : row.layer->value_scale;
    row.cache[d] = __nv_cvt_float_to_fp8(x * (1.0f / scale), __NV_SATFINITE, __NV_E4M3);
  }
}

__device__ float TableEntry(const RopeRows& rope, uint32_t position, uint32_t i) {
  const uint8_t* row = static_cast<const uint8_t*>(rope.rows) + position * rope.row_stride;
  return rope.type == TableType::kF32 ? *reinterpret_cast<const float*>(row + 4 * i) : Bf16At(row + 2 * i);
}

// Moves a row: read(d) and write(d, x) are of the two sides.
template <class Read, class Write>
__device__ void MoveRow(const RowPair& row, bool inverse, Read read, Write write) {
  uint32_t rotary = 0;
  if (row.key && row.layer->rope != kNoRope) {
    const RopeRows& rope = row.plan->ropes[row.layer->rope];
    rotary = rope.rotary_dims;
    for (uint32_t i = 0; i < rotary / 2; ++i) {
      const bool halves = rope.pairing == Pairing::kNeoxHalves;
      const uint32_t first = halves ? i : 2 * i, second = halves ? i + rotary / 2 : 2 * i + 1;
      float c = TableEntry(rope, row.position, i), s = TableEntry(rope, row.position, rotary / 2 + i);
      if (inverse) {
        const float length = c * c + s * s;
        c = c / length, s = -s / length;
      }
      const float x0 = read(first), x1 = read(second);
      write(first, x0 * c - x1 * s);
      write(second, x0 * s + x1 * c);
    }
  }
  for (uint32_t d = rotary; d < row.dim(); ++d) write(d, read(d));
}

__global__ void InjectRows(const __grid_constant__ KvPlanView plan, uint64_t rows) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t index = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < rows; index += stride) {
    RowPair row;
    if (!FindRow(plan, index, row)) continue;
    CheckStamps(plan, row.span.source, kStampChangedBefore);
    MoveRow(
        row, /*inverse=*/false, [&](uint32_t d) { return ReadRecord(row, d); },
        [&](uint32_t d, float x) { WriteCache(row, d, x); });
    CheckStamps(plan, row.span.source, kStampChangedAfter);
  }
}

__global__ void ExtractRows(const __grid_constant__ KvPlanView plan, uint64_t rows) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t index = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < rows; index += stride) {
    RowPair row;
    if (!FindRow(plan, index, row)) continue;
    if (!row.key && IsQuantised(row.span.encoding)) {
      float largest = 0;
      for (uint32_t d = 0; d < row.dim(); ++d) largest = fmaxf(largest, fabsf(ReadCache(row, d)));
      *reinterpret_cast<__half*>(row.scale) = __float2half_rn(fminf(largest / (row.wide() ? 127.0f : 7.0f), 65504.0f));
    }
    uint32_t clipped = 0;
    MoveRow(
        row, /*inverse=*/true, [&](uint32_t d) { return ReadCache(row, d); },
        [&](uint32_t d, float x) { clipped += WriteRecord(row, d, x); });
    if (clipped > 0) atomicAdd(plan.status + row.span.source, clipped);
  }
}

uint64_t Rows(const KvPlanView& plan) { return uint64_t{plan.token_count} * plan.layer_count * plan.shape.heads * 2; }

// Enough to fill any device; the kernels go on from there.
uint32_t Blocks(uint64_t rows) {
  return static_cast<uint32_t>(std::min<uint64_t>((rows + kThreads - 1) / kThreads, 4096));
}

}  // namespace

int InjectRowsCuda(const KvPlanView& plan, cudaStream_t stream) {
  InjectRows<<<Blocks(Rows(plan)), kThreads, 0, stream>>>(plan, Rows(plan));
  return cudaGetLastError();
}

int ExtractRowsCuda(const KvPlanView& plan, cudaStream_t stream) {
  ExtractRows<<<Blocks(Rows(plan)), kThreads, 0, stream>>>(plan, Rows(plan));
  return cudaGetLastError();
}

}  // namespace inferscale::kernels
