// The oracle (kv_case_test_util.h).
#include <algorithm>
#include <cmath>
#include <cstring>
#include <sstream>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/small_float.h"
#include "kernels/kv_case_test_util.h"

namespace inferscale::kernels {
namespace {

template <class T>
T Load(const std::vector<uint8_t>& memory, size_t at) {
  T value;
  std::memcpy(&value, memory.data() + at, sizeof value);
  return value;
}

// The distance of neighbours around `value` in a type of so many mantissa bits and this smallest exponent.
double StepOf(double value, int mantissa, int smallest) {
  const int exponent = value == 0 ? smallest : std::max(std::ilogb(value), smallest);
  return std::ldexp(1.0, exponent - mantissa);
}

double StepOfCache(CacheType type, double value) {
  if (type == CacheType::kBf16) return StepOf(value, 7, -126);
  return type == CacheType::kF16 ? StepOf(value, 10, -14) : StepOf(value, 3, -6);
}

double LoadCache(const std::vector<uint8_t>& memory, size_t at, CacheType type) {
  if (type == CacheType::kFp8E4m3) return Fp8ToF32(memory[at]);
  const auto bits = Load<uint16_t>(memory, at);
  return type == CacheType::kBf16 ? Bf16ToF32(bits) : F16ToF32Scalar(bits);
}

}  // namespace

KvCase::Row KvCase::RecordRow(const std::vector<uint8_t>& memory, const Place& place, bool key) const {
  const PayloadLayout& at = place.record->layout;
  const uint32_t layer = place.layer->record_layer;
  const size_t row =
      place.record->payload + (key ? at.Key(place.head, layer, place.token) : at.Value(place.head, layer, place.token));
  Row out(key ? spec_.key_dim : spec_.value_dim);
  for (uint32_t d = 0; d < out.size(); ++d) {
    double& x = out[d].value;
    if (at.encoding == PayloadEncoding::kBf16) x = Bf16ToF32(Load<uint16_t>(memory, row + 2 * d));
    if (at.encoding == PayloadEncoding::kF16) x = F16ToF32Scalar(Load<uint16_t>(memory, row + 2 * d));
    if (!IsQuantised(at.encoding)) continue;
    const bool wide = at.encoding == PayloadEncoding::kInt8;
    const uint32_t q = wide ? memory[row + d] : (memory[row + d / 2] >> (d % 2 * 4)) & 15;
    if (key) {
      const KeyQuant channel = Channel(layer, place.head, d);
      x = F16ToF32Scalar(channel.zero) + double{F16ToF32Scalar(channel.scale)} * q;
    } else {
      const auto scale = Load<uint16_t>(memory, place.record->payload + at.ValueScale(place.head, layer, place.token));
      x = double{F16ToF32Scalar(scale)} * (wide ? int{static_cast<int8_t>(q)} : static_cast<int>(q) - 8);
    }
    out[d].slack = std::ldexp(std::fabs(x), -24);
  }
  return out;
}

KvCase::Row KvCase::CacheRow(const std::vector<uint8_t>& memory, const Place& place, bool key) const {
  const CacheLayer& layer = *place.layer;
  const size_t at = place.cell + (key ? layer.key_offset : layer.value_offset);
  Row out(key ? spec_.key_dim : spec_.value_dim);
  for (uint32_t d = 0; d < out.size(); ++d) {
    out[d].value = LoadCache(memory, at + d * BytesPerElement(layer.type), layer.type) *
                   double{key ? layer.key_scale : layer.value_scale};
    out[d].slack = layer.type == CacheType::kFp8E4m3 ? std::ldexp(std::fabs(out[d].value), -24) : 0;
  }
  return out;
}

double KvCase::Table(const RopeRows& rope, uint32_t position, uint32_t i) const {
  const size_t at = rope_base_[&rope - ropes_.data()] + position * rope.row_stride;
  return rope.type == TableType::kF32 ? Load<float>(memory_, at + 4 * i)
                                      : Bf16ToF32(Load<uint16_t>(memory_, at + 2 * i));
}

void KvCase::Rotate(const Place& place, bool inverse, Row& row) const {
  if (place.layer->rope == kNoRope) return;
  const RopeRows& rope = ropes_[place.layer->rope];
  const uint32_t half = rope.rotary_dims / 2;
  for (uint32_t i = 0; i < half; ++i) {
    Expected& a = row[rope.pairing == Pairing::kNeoxHalves ? i : 2 * i];
    Expected& b = row[rope.pairing == Pairing::kNeoxHalves ? i + half : 2 * i + 1];
    double c = Table(rope, place.position, i), s = Table(rope, place.position, half + i);
    if (inverse) {
      const double length = c * c + s * s;
      c /= length;
      s /= -length;
    }
    // The sine and cosine of the inverse have four f32 roundings, products and sum one each.
    const double size = std::fabs(a.value) + std::fabs(b.value) + a.slack + b.slack;
    const double slack = std::ldexp(size * (std::fabs(c) + std::fabs(s)), inverse ? -21 : -23) + a.slack + b.slack;
    const double y0 = a.value * c - b.value * s, y1 = a.value * s + b.value * c;
    a = {y0, slack};
    b = {y1, slack};
  }
}

std::string KvCase::CheckInjected(const std::vector<uint8_t>& after) const {
  std::ostringstream wrong;
  std::vector<uint8_t> rest = after;  // with all that may change put back
  int count = 0;
  ForEachPlace([&](const Place& place) {
    for (const bool key : {true, false}) {
      Row row = RecordRow(memory_, place, key);
      if (key) Rotate(place, /*inverse=*/false, row);
      const CacheLayer& layer = *place.layer;
      const size_t at = place.cell + (key ? layer.key_offset : layer.value_offset);
      const size_t element = BytesPerElement(layer.type);
      const double scale = key ? layer.key_scale : layer.value_scale;
      for (uint32_t d = 0; d < row.size(); ++d) {
        double exact = row[d].value / scale;
        if (layer.type == CacheType::kFp8E4m3) exact = std::clamp(exact, -448.0, 448.0);
        const double got = LoadCache(after, at + d * element, layer.type);
        const double allowed =
            StepOfCache(layer.type, exact) / 2 + row[d].slack / scale + std::ldexp(std::fabs(exact), -22);
        if (!(std::fabs(got - exact) <= allowed) && ++count <= 5) {
          wrong << (key ? "K" : "V") << " record " << place.source << " token " << place.token << " position "
                << place.position << " layer " << layer.record_layer << " head " << place.head << " element " << d
                << ": " << got << " for " << exact << " +- " << allowed << '\n';
        }
      }
      std::copy_n(memory_.begin() + at, row.size() * element, rest.begin() + at);
    }
  });
  for (size_t i = 0; i < rest.size() && count <= 10; ++i) {
    if (rest[i] != memory_[i] && ++count <= 10) wrong << "byte " << i << " was written\n";
  }
  return wrong.str();
}

// How far a stored value may be from the exact one.
double KvCase::Step(const std::vector<uint8_t>& after, const Place& place, bool key, uint32_t d, double value) const {
  const PayloadLayout& at = place.record->layout;
  if (at.encoding == PayloadEncoding::kBf16) return StepOf(value, 7, -126) / 2;
  if (at.encoding == PayloadEncoding::kF16) return StepOf(value, 10, -14) / 2;
  const uint32_t layer = place.layer->record_layer;
  if (!key) {
    const auto bits = Load<uint16_t>(after, place.record->payload + at.ValueScale(place.head, layer, place.token));
    return F16ToF32Scalar(bits) * 0.5001;
  }
  const KeyQuant channel = Channel(layer, place.head, d);
  const double scale = F16ToF32Scalar(channel.scale), low = F16ToF32Scalar(channel.zero);
  const double high = low + scale * (at.encoding == PayloadEncoding::kInt8 ? 255 : 15);
  return scale * 0.5001 + std::max({0.0, low - value, value - high});  // clipped: the end of the range
}

std::string KvCase::CheckExtracted(const std::vector<uint8_t>& after, const std::vector<uint32_t>& status) const {
  std::ostringstream wrong;
  std::vector<uint8_t> rest = after;
  std::vector<double> surely(records_.size()), perhaps(records_.size());  // clipped values
  int count = 0;
  ForEachPlace([&](const Place& place) {
    const PayloadLayout& at = place.record->layout;
    const uint32_t layer = place.layer->record_layer;
    for (const bool key : {true, false}) {
      Row row = CacheRow(memory_, place, key);
      if (key) Rotate(place, /*inverse=*/true, row);
      const Row got = RecordRow(after, place, key);
      for (uint32_t d = 0; d < row.size(); ++d) {
        const double allowed = Step(after, place, key, d, row[d].value) + row[d].slack + got[d].slack;
        if (!(std::fabs(got[d].value - row[d].value) <= allowed) && ++count <= 5) {
          wrong << (key ? "K" : "V") << " record " << place.source << " token " << place.token << " layer " << layer
                << " head " << place.head << " element " << d << ": " << got[d].value << " for " << row[d].value
                << " +- " << allowed << '\n';
        }
        if (!key || !IsQuantised(at.encoding)) continue;
        const KeyQuant channel = Channel(layer, place.head, d);
        const double scale = F16ToF32Scalar(channel.scale), zero = F16ToF32Scalar(channel.zero);
        const double q = (row[d].value - zero) / scale, top = at.encoding == PayloadEncoding::kInt8 ? 255 : 15;
        const double slack = row[d].slack / scale + 1e-4;
        surely[place.source] += q < -0.5 - slack || q > top + 0.5 + slack;
        perhaps[place.source] += q < -0.5 + slack || q > top + 0.5 - slack;
      }
      const size_t to = place.record->payload +
                        (key ? at.Key(place.head, layer, place.token) : at.Value(place.head, layer, place.token));
      std::copy_n(memory_.begin() + to, key ? at.KeyRowBytes() : at.ValueRowBytes(), rest.begin() + to);
    }
    if (IsQuantised(at.encoding)) {
      const size_t to = place.record->payload + at.ValueScale(place.head, layer, place.token);
      std::copy_n(memory_.begin() + to, 2, rest.begin() + to);
    }
  });
  for (size_t i = 0; i < records_.size(); ++i) {
    if ((status[i] < surely[i] || status[i] > perhaps[i]) && ++count <= 10) {
      wrong << "record " << i << ": " << status[i] << " clipped, not " << surely[i] << " to " << perhaps[i] << '\n';
    }
  }
  for (size_t i = 0; i < rest.size() && count <= 10; ++i) {
    if (rest[i] != memory_[i] && ++count <= 10) wrong << "byte " << i << " was written\n";
  }
  return wrong.str();
}

}  // namespace inferscale::kernels
