// An engine's paged KV cache, described as data: where a token of a request lies in each layer, and how its keys are
// rotated. Shared by the CPU and the CUDA side; plain types only.
//
// Element (block, head, token in block, d) of a layer's keys is at
//     base + block * block_stride + head * head_stride + token * token_stride + key_offset + d * element size
// and of its values at the same with value_offset. All of them bytes; torch strides are elements, so multiply.
// Examples, E = element size, H heads of D, N tokens per block (vLLM's layouts):
//     kv-first     (2, B, N, H, D)  block N*H*D*E    head D*E      token H*D*E    K 0, V B*N*H*D*E
//     blocks-first (B, 2, N, H, D)  block 2*N*H*D*E  head D*E      token H*D*E    K 0, V N*H*D*E
//     packed NHD   (B, N, H, 2D)    block N*H*2*D*E  head 2*D*E    token H*2*D*E  K 0, V D*E
//     packed HND   (B, H, N, 2D)    block H*N*2*D*E  head N*2*D*E  token 2*D*E    K 0, V D*E
// and the same with other outer strides for views into one allocation of all layers.
#pragma once

#include <cstdint>

#include "kernels/kv_payload.h"

namespace inferscale::kernels {

enum class CacheType : uint8_t { kBf16 = 0, kF16 = 1, kFp8E4m3 = 2 };

INFERSCALE_HD constexpr uint32_t BytesPerElement(CacheType type) { return type == CacheType::kFp8E4m3 ? 1 : 2; }

enum class TableType : uint8_t { kF32 = 0, kBf16 = 1 };
enum class Pairing : uint8_t { kNeoxHalves = 1, kInterleaved = 2 };  // as core RopePairing

// [positions] rows of rotary_dims / 2 cosines, then as many sines. An engine's own table where it can be read (vLLM's
// cos_sin_cache), else core RopeTable. Elements of a key from rotary_dims on are copied.
struct RopeRows {
  const void* rows = nullptr;
  uint64_t row_stride = 0;  // bytes
  uint32_t positions = 0;
  uint32_t rotary_dims = 0;  // even, <= key_dim
  TableType type = TableType::kF32;
  Pairing pairing = Pairing::kNeoxHalves;
};

inline constexpr uint32_t kNoRope = 0xFFFFFFFF;

// One layer present on this rank. An fp8 element is value / scale, rounded to nearest even and cut at +-448; the scales
// are the serving layer's own, and 1 for the other types.
struct CacheLayer {
  uint8_t* base = nullptr;
  int64_t block_stride = 0;
  int64_t head_stride = 0;
  int64_t token_stride = 0;
  int64_t key_offset = 0;
  int64_t value_offset = 0;
  float key_scale = 1.0f;
  float value_scale = 1.0f;
  uint32_t record_layer = 0;      // of the record
  uint32_t rope = kNoRope;        // index into the plan's RopeRows; kNoRope: the layer does not rotate
  uint32_t group = 0;             // whose block table serves this layer (full attention, sliding window, …)
  uint32_t block_size = 0;        // tokens per block as the view counts them
  uint32_t blocks_per_entry = 1;  // blocks of the view per entry of the table: entry e holds e * n … e * n + n - 1
  uint32_t block_count = 0;       // blocks of the view: the bound for the tables' entries
  CacheType type = CacheType::kBf16;
  // Set by BuildKvPlan: layers of equal number have a token's row at the same distance from their base.
  uint32_t geometry = 0;
};

}  // namespace inferscale::kernels
