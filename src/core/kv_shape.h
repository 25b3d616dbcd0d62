// The shape of one model's attention cache, and where an element lies in a record's payload.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale {

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
};

}  // namespace inferscale
