// Chunked RoPE on the CPU: keys as stored (before rotation) to keys at their final positions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale::kernels {

// One head of one layer of one record. All strides count elements of their array.
struct RotateArgs {
  const uint16_t* src;   // [tokens][src_stride] f16 keys before rotation
  size_t src_stride;
  uint16_t* dst;         // [tokens][dst_stride] f16 keys at positions first, first + 1, …; may not overlap src
  size_t dst_stride;
  const float* table;    // [tokens][table_stride]: rotary_dims / 2 cosines, then as many sines (core RopeTable::Row)
  size_t table_stride;
  size_t tokens;
  size_t head_dim;       // elements per key; those from rotary_dims on are copied
  size_t rotary_dims;    // even; 0: copy only
  bool interleaved;      // pairs (2i, 2i+1) instead of (i, i + rotary_dims / 2)
};

// SIMD (Highway, best target chosen at run time). Arithmetic in f32, one rounding to f16 (nearest even).
void RotateF16(const RotateArgs& args);
// Plain loops: the oracle, same arithmetic order per element (results equal within one f16 rounding: FMA differs).
void RotateF16Scalar(const RotateArgs& args);

}  // namespace inferscale::kernels
