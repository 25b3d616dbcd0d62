// Whole payloads between f16 (core KvShape's order) and int8 or int4 (kv_payload.h), for the store's border. The
// numbers are those of ExtractCpu and InjectCpu (kv_transfer.h), which move single rows between a payload and a cache.
#pragma once

#include <cstdint>

#include "kernels/kv_payload.h"

namespace inferscale::kernels {

struct QuantiseResult {
  uint64_t clipped = 0;  // K values that were outside of their channel's range
  bool finite = true;    // false: some element is infinite or NaN, and the payload is of no use
};

// elements: f16, [heads][layers][K [tokens][key_dim], V [tokens][value_dim]]. layout: of the payload, int8 or int4,
// sizes within base/limits.h. channels: [layers][heads][key_dim]. payload: [layout.Bytes()], all of it written.
//
//   q = round((key - zero) / scale) to nearest even, clipped to 0 … 255 (15)
//   V: the row's scale is its largest magnitude / 127 (7), as f16
QuantiseResult QuantisePayload(const uint16_t* elements, const PayloadLayout& layout, const KeyQuant* channels,
                               uint8_t* payload);

// The inverse: zero + q * scale and q * scale in f32 (the products are exact), rounded once to f16.
void DequantisePayload(const uint8_t* payload, const PayloadLayout& layout, const KeyQuant* channels,
                       uint16_t* elements);

}  // namespace inferscale::kernels
