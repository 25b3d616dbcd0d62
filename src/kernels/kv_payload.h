// The bytes of one KV record as the kernels see them: shared by the CPU and the CUDA side, plain types only.
//
// Payload, for the kv heads that this rank owns (docs/formats/kv_record.md has the file around it):
//
//   head 0 | layer 0: K [tokens][key_dim], V [tokens][value_dim] | layer 1: … | … | V scales [layers][tokens] f16,
//   padded head 1 | …                                                                      to 16 bytes (int8 and int4
//   only)
//
//   bf16, f16  the values
//   int8       K: u8, key = zero + q * scale, scale and zero of (layer, head, channel) from the model key's
//   calibration;
//              V: s8 in [-127, 127], value = q * the row's scale
//   int4       the same with K: 0 … 15, and V: nibble - 8 in [-7, 7]; element 2i in the low half of byte i
//
// A head's part is contiguous, and so is what a tensor-parallel rank needs. 27 tokens of Llama 3.1 8B (32 layers, 8
// heads of 128): 3,538,944 bytes as bf16, 1,783,296 as int8, 898,560 as int4.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define INFERSCALE_HD __host__ __device__
#else
#define INFERSCALE_HD
#endif

namespace inferscale::kernels {

// The numbers are those of core KvEncoding, and part of the file format.
enum class PayloadEncoding : uint8_t { kF16 = 1, kBf16 = 2, kInt8 = 3, kInt4 = 4 };

INFERSCALE_HD constexpr bool IsQuantised(PayloadEncoding encoding) {
  return encoding == PayloadEncoding::kInt8 || encoding == PayloadEncoding::kInt4;
}
INFERSCALE_HD constexpr uint32_t BitsPerElement(PayloadEncoding encoding) {
  return encoding == PayloadEncoding::kInt8 ? 8 : encoding == PayloadEncoding::kInt4 ? 4 : 16;
}

// What stands before a record's payload in shared memory and in the arena, and names the bytes behind it. Whoever
// reuses the memory clears `generation` first, then writes the bytes, then the new stamp; generations are never used
// twice. So a reader that finds the stamp it expected *after* reading has read that record and nothing else.
struct alignas(16) RecordStamp {
  uint64_t id[2] = {0, 0};
  uint64_t version = 0;
  uint64_t generation = 0;  // 0: no record

  bool operator==(const RecordStamp&) const = default;
};
static_assert(sizeof(RecordStamp) == 32);

// From a stamp to its payload, when both are in one piece: a DRAM burst and every vector load start aligned.
inline constexpr size_t kStampBytes = 256;

// What all records of one model key have in common on this rank.
struct PayloadShape {
  uint32_t heads = 0;   // kv heads of this rank
  uint32_t layers = 0;  // of the record; the cache of a pipeline stage may have fewer
  uint32_t key_dim = 0;
  uint32_t value_dim = 0;

  bool operator==(const PayloadShape&) const = default;
};

// Byte offsets into a payload of `tokens` tokens. int4 needs even key_dim and value_dim.
struct PayloadLayout {
  PayloadShape shape;
  uint32_t tokens = 0;
  PayloadEncoding encoding = PayloadEncoding::kBf16;

  INFERSCALE_HD constexpr uint32_t KeyRowBytes() const { return shape.key_dim * BitsPerElement(encoding) / 8; }
  INFERSCALE_HD constexpr uint32_t ValueRowBytes() const { return shape.value_dim * BitsPerElement(encoding) / 8; }
  // K and V of one head in one layer.
  INFERSCALE_HD constexpr uint64_t LayerBytes() const { return uint64_t{tokens} * (KeyRowBytes() + ValueRowBytes()); }
  INFERSCALE_HD constexpr uint64_t HeadBytes() const {
    const uint64_t rows = shape.layers * LayerBytes();
    return IsQuantised(encoding) ? Aligned(rows) + Aligned(uint64_t{shape.layers} * tokens * 2) : rows;
  }
  INFERSCALE_HD constexpr uint64_t Bytes() const { return shape.heads * HeadBytes(); }

  INFERSCALE_HD constexpr uint64_t Key(uint32_t head, uint32_t layer, uint32_t token) const {
    return head * HeadBytes() + layer * LayerBytes() + uint64_t{token} * KeyRowBytes();
  }
  INFERSCALE_HD constexpr uint64_t Value(uint32_t head, uint32_t layer, uint32_t token) const {
    return Key(head, layer, tokens) + uint64_t{token} * ValueRowBytes();
  }
  // Of an f16 scale; only when quantised.
  INFERSCALE_HD constexpr uint64_t ValueScale(uint32_t head, uint32_t layer, uint32_t token) const {
    return head * HeadBytes() + Aligned(shape.layers * LayerBytes()) + (uint64_t{layer} * tokens + token) * 2;
  }

 private:
  INFERSCALE_HD static constexpr uint64_t Aligned(uint64_t bytes) { return (bytes + 15) / 16 * 16; }
};

// One channel of one head's keys in one layer. Both f16: the quantiser uses the rounded numbers, so that nothing is
// lost by it, and a row of 128 channels is 512 bytes instead of 1,024.
struct KeyQuant {
  uint16_t scale = 0;  // > 0
  uint16_t zero = 0;
};
// A calibration is [layers][heads][key_dim] KeyQuant of a PayloadShape, 16-byte aligned.

}  // namespace inferscale::kernels
