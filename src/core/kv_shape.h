// The shape of one model's attention cache, and where an element lies in a record's payload.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace inferscale {

// How keys and values are stored. The numbers are part of the file format, and those of kernels PayloadEncoding.
enum class KvEncoding : uint8_t {
  kF16 = 1,   // the exact tier: IEEE half, the type the embedded engine's cache has
  kBf16 = 2,  // reserved: no engine on this side writes it yet
  kInt8 = 3,  // these two need a calibration (core/calibration.h)
  kInt4 = 4,
};

constexpr std::string_view KvEncodingName(KvEncoding encoding) {
  switch (encoding) {
    case KvEncoding::kF16:
      return "f16";
    case KvEncoding::kBf16:
      return "bf16";
    case KvEncoding::kInt8:
      return "int8";
    case KvEncoding::kInt4:
      return "int4";
  }
  return "unknown";
}
// Of those that records can be stored as.
constexpr std::optional<KvEncoding> ParseKvEncoding(std::string_view name) {
  for (const KvEncoding encoding : {KvEncoding::kF16, KvEncoding::kInt8, KvEncoding::kInt4})
    if (name == KvEncodingName(encoding)) return encoding;
  return std::nullopt;
}

constexpr bool IsQuantised(KvEncoding encoding) {
  return encoding == KvEncoding::kInt8 || encoding == KvEncoding::kInt4;
}

// All layers of the models we inject into have equal head counts and sizes; an engine refuses others (text mode).
struct KvShape {
  uint32_t layers = 0;
  uint32_t kv_heads = 0;
  uint32_t key_dim = 0;    // elements of one head's key
  uint32_t value_dim = 0;  // elements of one head's value

  bool operator==(const KvShape&) const = default;

  // Payload order: [kv head][layer][K then V][token][dim], so that a tensor-parallel rank, which owns some heads, reads
  // one contiguous range. All of these count elements, not bytes.
  size_t ElementsPerToken() const { return size_t{kv_heads} * layers * (key_dim + value_dim); }
  size_t KeyOffset(uint32_t head, uint32_t layer, size_t tokens) const {
    return (size_t{head} * layers + layer) * tokens * (key_dim + value_dim);
  }
  size_t ValueOffset(uint32_t head, uint32_t layer, size_t tokens) const {
    return KeyOffset(head, layer, tokens) + tokens * key_dim;
  }

  // Two elements of int4 share a byte: rows must not begin inside of one.
  bool CanStoreAs(KvEncoding encoding) const {
    return encoding != KvEncoding::kInt4 || (key_dim % 2 == 0 && value_dim % 2 == 0);
  }
  // Bytes of a payload (docs/formats/kv_record.md): a quantised one has, for each head, its rows padded to 16 bytes,
  // and its V scales, one f16 for each layer and token, likewise.
  size_t PayloadBytes(size_t tokens, KvEncoding encoding) const {
    if (!IsQuantised(encoding)) return ElementsPerToken() * tokens * sizeof(uint16_t);
    const auto aligned = [](size_t bytes) { return (bytes + 15) / 16 * 16; };
    const size_t per_byte = encoding == KvEncoding::kInt4 ? 2 : 1;
    const size_t rows = size_t{layers} * tokens * (key_dim / per_byte + value_dim / per_byte);
    return kv_heads * (aligned(rows) + aligned(size_t{layers} * tokens * sizeof(uint16_t)));
  }
};

}  // namespace inferscale
