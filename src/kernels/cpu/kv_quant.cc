#include "kernels/cpu/kv_quant.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/limits.h"
#include "kernels/cpu/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/kv_quant.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/highway.h"
#include "kernels/cpu/f16-inl.h"

#ifndef INFERSCALE_KERNELS_CPU_KV_QUANT_ONCE
#define INFERSCALE_KERNELS_CPU_KV_QUANT_ONCE
namespace inferscale::kernels {

// What int8 and int4 differ in. Rows of both are handled as bytes; int4 is packed behind it.
struct QuantRange {
  bool packed;      // two elements a byte
  float key_top;    // K: 0 … key_top
  float value_top;  // V: -value_top … value_top
  int value_bias;   // added to what is stored
};
constexpr QuantRange RangeOf(PayloadEncoding encoding) {
  return encoding == PayloadEncoding::kInt8 ? QuantRange{false, 255, 127, 0} : QuantRange{true, 15, 7, 8};
}

// One (layer, head): its channels as f32.
struct KeyRow {
  alignas(64) float scale[limits::kHeadDim];
  alignas(64) float zero[limits::kHeadDim];
};

constexpr float kHalfMax = 65504;
constexpr uint16_t kHalfInfinity = 0x7C00;  // and above: NaN
constexpr uint16_t kHalfMagnitude = 0x7FFF;

}  // namespace inferscale::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

using FloatTag = hn::ScalableTag<float>;
using HalfTag = hn::Rebind<uint16_t, FloatTag>;
using ByteTag = hn::Rebind<uint8_t, FloatTag>;
using SignedByteTag = hn::Rebind<int8_t, FloatTag>;
using IntTag = hn::Rebind<int32_t, FloatTag>;

void LoadChannels(const KeyQuant* HWY_RESTRICT channels, size_t dim, KeyRow& row) {
  const FloatTag df;
  const HalfTag dh;
  const auto* halves = reinterpret_cast<const uint16_t*>(channels);
  size_t d = 0;
  for (; d + hn::Lanes(df) <= dim; d += hn::Lanes(df)) {
    hn::VFromD<HalfTag> scale, zero;
    hn::LoadInterleaved2(dh, halves + 2 * d, scale, zero);
    hn::StoreU(FloatOfHalf(df, scale), df, row.scale + d);
    hn::StoreU(FloatOfHalf(df, zero), df, row.zero + d);
  }
  for (; d < dim; ++d) {
    row.scale[d] = F16ToF32Scalar(channels[d].scale);
    row.zero[d] = F16ToF32Scalar(channels[d].zero);
  }
}

// Elements 2i and 2i + 1 become byte i, the first in its low half. bytes: even.
void PackNibbles(const uint8_t* HWY_RESTRICT quanta, size_t bytes, uint8_t* HWY_RESTRICT packed) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);
  size_t i = 0;
  for (; i + lanes <= bytes / 2; i += lanes) {
    const auto pair = hn::LoadU(d16, reinterpret_cast<const uint16_t*>(quanta) + i);
    const auto joined = hn::And(hn::Or(pair, hn::ShiftRight<4>(pair)), hn::Set(d16, 0xFF));
    hn::StoreU(hn::TruncateTo(d8, joined), d8, packed + i);
  }
  for (; i < bytes / 2; ++i) packed[i] = static_cast<uint8_t>(quanta[2 * i] | quanta[2 * i + 1] << 4);
}

void UnpackNibbles(const uint8_t* HWY_RESTRICT packed, size_t bytes, uint8_t* HWY_RESTRICT quanta) {
  const hn::ScalableTag<uint16_t> d16;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  const size_t lanes = hn::Lanes(d16);
  size_t i = 0;
  for (; i + lanes <= bytes / 2; i += lanes) {
    const auto joined = hn::PromoteTo(d16, hn::LoadU(d8, packed + i));
    const auto pair = hn::And(hn::Or(joined, hn::ShiftLeft<4>(joined)), hn::Set(d16, 0x0F0F));
    hn::StoreU(pair, d16, reinterpret_cast<uint16_t*>(quanta) + i);
  }
  for (; i < bytes / 2; ++i) {
    quanta[2 * i] = packed[i] & 15;
    quanta[2 * i + 1] = packed[i] >> 4;
  }
}

// One row of K as bytes. Returns how many were clipped; largest: the magnitudes' maximum so far, as bits.
uint32_t QuantiseKey(const uint16_t* HWY_RESTRICT in, const KeyRow& row, size_t dim, float key_top,
                     uint8_t* HWY_RESTRICT quanta, uint16_t& largest) {
  const FloatTag df;
  const HalfTag dh;
  const auto top = hn::Set(df, key_top), bottom = hn::Zero(df), one = hn::Set(df, 1.0f);
  auto magnitude = hn::Zero(dh);
  auto outside = hn::Zero(df);
  size_t d = 0;
  for (; d + hn::Lanes(df) <= dim; d += hn::Lanes(df)) {
    const auto bits = hn::LoadU(dh, in + d);
    magnitude = hn::Max(magnitude, hn::And(bits, hn::Set(dh, kHalfMagnitude)));
    const auto shifted = hn::Sub(FloatOfHalf(df, bits), hn::Load(df, row.zero + d));
    const auto q = hn::Round(hn::Div(shifted, hn::Load(df, row.scale + d)));
    outside = hn::Add(outside, hn::IfThenElseZero(hn::Or(hn::Lt(q, bottom), hn::Gt(q, top)), one));
    const auto kept = hn::ConvertTo(IntTag(), hn::Min(hn::Max(q, bottom), top));
    hn::StoreU(hn::DemoteTo(ByteTag(), kept), ByteTag(), quanta + d);
  }
  largest = std::max(largest, hn::GetLane(hn::MaxOfLanes(dh, magnitude)));
  auto clipped = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(df, outside)));
  for (; d < dim; ++d) {
    largest = std::max<uint16_t>(largest, in[d] & kHalfMagnitude);
    const float q = std::nearbyint((F16ToF32Scalar(in[d]) - row.zero[d]) / row.scale[d]);
    clipped += q < 0 || q > key_top;
    quanta[d] = static_cast<uint8_t>(std::fmin(std::fmax(q, 0.0f), key_top));
  }
  return clipped;
}

uint16_t LargestMagnitude(const uint16_t* HWY_RESTRICT in, size_t dim) {
  const HalfTag dh;
  auto magnitude = hn::Zero(dh);
  size_t d = 0;
  for (; d + hn::Lanes(dh) <= dim; d += hn::Lanes(dh))
    magnitude = hn::Max(magnitude, hn::And(hn::LoadU(dh, in + d), hn::Set(dh, kHalfMagnitude)));
  uint16_t largest = hn::GetLane(hn::MaxOfLanes(dh, magnitude));
  for (; d < dim; ++d) largest = std::max<uint16_t>(largest, in[d] & kHalfMagnitude);
  return largest;
}

// One row of V as bytes; returns its scale.
uint16_t QuantiseValue(const uint16_t* HWY_RESTRICT in, size_t dim, const QuantRange& range,
                       uint8_t* HWY_RESTRICT quanta, uint16_t& largest) {
  const FloatTag df;
  const HalfTag dh;
  const uint16_t row_largest = LargestMagnitude(in, dim);
  largest = std::max(largest, row_largest);
  const uint16_t stored = F32ToF16Scalar(std::min(F16ToF32Scalar(row_largest) / range.value_top, kHalfMax));
  const float scale = F16ToF32Scalar(stored);
  if (!(scale > 0)) {
    std::memset(quanta, range.value_bias, dim);
    return stored;
  }
  const auto top = hn::Set(df, range.value_top), divisor = hn::Set(df, scale);
  const auto bias = hn::Set(IntTag(), range.value_bias);
  size_t d = 0;
  for (; d + hn::Lanes(df) <= dim; d += hn::Lanes(df)) {
    const auto q = hn::Round(hn::Div(FloatOfHalf(df, hn::LoadU(dh, in + d)), divisor));
    const auto kept = hn::ConvertTo(IntTag(), hn::Min(hn::Max(q, hn::Neg(top)), top));
    hn::StoreU(hn::DemoteTo(SignedByteTag(), hn::Add(kept, bias)), SignedByteTag(),
               reinterpret_cast<int8_t*>(quanta) + d);
  }
  for (; d < dim; ++d) {
    const float q = std::nearbyint(F16ToF32Scalar(in[d]) / scale);
    const float kept = std::fmin(std::fmax(q, -range.value_top), range.value_top);
    quanta[d] = static_cast<uint8_t>(static_cast<int>(kept) + range.value_bias);
  }
  return stored;
}

void DequantiseKey(const uint8_t* HWY_RESTRICT quanta, const KeyRow& row, size_t dim, uint16_t* HWY_RESTRICT out) {
  const FloatTag df;
  size_t d = 0;
  for (; d + hn::Lanes(df) <= dim; d += hn::Lanes(df)) {
    const auto q = hn::ConvertTo(df, hn::PromoteTo(IntTag(), hn::LoadU(ByteTag(), quanta + d)));
    const auto key = hn::MulAdd(q, hn::Load(df, row.scale + d), hn::Load(df, row.zero + d));
    hn::StoreU(HalfOfFloat(df, key), HalfTag(), out + d);
  }
  for (; d < dim; ++d) out[d] = F32ToF16Scalar(static_cast<float>(quanta[d]) * row.scale[d] + row.zero[d]);
}

void DequantiseValue(const uint8_t* HWY_RESTRICT quanta, float scale, int value_bias, size_t dim,
                     uint16_t* HWY_RESTRICT out) {
  const FloatTag df;
  const auto factor = hn::Set(df, scale);
  const auto bias = hn::Set(IntTag(), value_bias);
  const auto* from = reinterpret_cast<const int8_t*>(quanta);
  size_t d = 0;
  for (; d + hn::Lanes(df) <= dim; d += hn::Lanes(df)) {
    const auto q = hn::Sub(hn::PromoteTo(IntTag(), hn::LoadU(SignedByteTag(), from + d)), bias);
    hn::StoreU(HalfOfFloat(df, hn::Mul(hn::ConvertTo(df, q), factor)), HalfTag(), out + d);
  }
  for (; d < dim; ++d) out[d] = F32ToF16Scalar(static_cast<float>(from[d] - value_bias) * scale);
}

QuantiseResult QuantisePayload(const uint16_t* elements, const PayloadLayout& at, const KeyQuant* channels,
                               uint8_t* payload) {
  const QuantRange range = RangeOf(at.encoding);
  const PayloadShape& shape = at.shape;
  alignas(64) uint8_t buffer[limits::kHeadDim];
  KeyRow row;
  QuantiseResult result;
  uint16_t largest = 0;
  for (uint32_t head = 0; head < shape.heads; ++head) {
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      LoadChannels(channels + (size_t{layer} * shape.heads + head) * shape.key_dim, shape.key_dim, row);
      for (uint32_t t = 0; t < at.tokens; ++t, elements += shape.key_dim) {
        uint8_t* to = payload + at.Key(head, layer, t);
        uint8_t* quanta = range.packed ? buffer : to;
        result.clipped += QuantiseKey(elements, row, shape.key_dim, range.key_top, quanta, largest);
        if (range.packed) PackNibbles(buffer, shape.key_dim, to);
      }
      for (uint32_t t = 0; t < at.tokens; ++t, elements += shape.value_dim) {
        uint8_t* to = payload + at.Value(head, layer, t);
        const uint16_t scale = QuantiseValue(elements, shape.value_dim, range, range.packed ? buffer : to, largest);
        if (range.packed) PackNibbles(buffer, shape.value_dim, to);
        std::memcpy(payload + at.ValueScale(head, layer, t), &scale, sizeof scale);
      }
    }
  }
  result.finite = largest < kHalfInfinity;
  return result;
}

void DequantisePayload(const uint8_t* payload, const PayloadLayout& at, const KeyQuant* channels, uint16_t* elements) {
  const QuantRange range = RangeOf(at.encoding);
  const PayloadShape& shape = at.shape;
  alignas(64) uint8_t buffer[limits::kHeadDim];
  KeyRow row;
  const auto quanta_of = [&](uint64_t from, uint32_t dim) -> const uint8_t* {
    if (!range.packed) return payload + from;
    UnpackNibbles(payload + from, dim, buffer);
    return buffer;
  };
  for (uint32_t head = 0; head < shape.heads; ++head) {
    for (uint32_t layer = 0; layer < shape.layers; ++layer) {
      LoadChannels(channels + (size_t{layer} * shape.heads + head) * shape.key_dim, shape.key_dim, row);
      for (uint32_t t = 0; t < at.tokens; ++t, elements += shape.key_dim)
        DequantiseKey(quanta_of(at.Key(head, layer, t), shape.key_dim), row, shape.key_dim, elements);
      for (uint32_t t = 0; t < at.tokens; ++t, elements += shape.value_dim) {
        uint16_t scale;
        std::memcpy(&scale, payload + at.ValueScale(head, layer, t), sizeof scale);
        DequantiseValue(quanta_of(at.Value(head, layer, t), shape.value_dim), F16ToF32Scalar(scale), range.value_bias,
                        shape.value_dim, elements);
      }
    }
  }
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inferscale::kernels {

HWY_EXPORT(QuantisePayload);
HWY_EXPORT(DequantisePayload);

namespace {

// The bytes between a head's rows and its scales, and behind those, are zeros: equal records are equal byte for byte.
void ZeroPadding(const PayloadLayout& at, uint8_t* payload) {
  const PayloadShape& shape = at.shape;
  for (uint32_t head = 0; head < shape.heads; ++head) {
    const uint64_t rows_end = at.Key(head, shape.layers, 0), scales = at.ValueScale(head, 0, 0);
    const uint64_t scales_end = at.ValueScale(head, shape.layers, 0), end = at.Key(head + 1, 0, 0);
    std::memset(payload + rows_end, 0, scales - rows_end);
    std::memset(payload + scales_end, 0, end - scales_end);
  }
}

}  // namespace

QuantiseResult QuantisePayload(const uint16_t* elements, const PayloadLayout& layout, const KeyQuant* channels,
                               uint8_t* payload) {
  ZeroPadding(layout, payload);
  return HWY_DYNAMIC_DISPATCH(QuantisePayload)(elements, layout, channels, payload);
}

void DequantisePayload(const uint8_t* payload, const PayloadLayout& layout, const KeyQuant* channels,
                       uint16_t* elements) {
  HWY_DYNAMIC_DISPATCH(DequantisePayload)(payload, layout, channels, elements);
}

}  // namespace inferscale::kernels
#endif  // HWY_ONCE
