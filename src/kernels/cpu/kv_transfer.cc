#include "kernels/cpu/kv_transfer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/limits.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/small_float.h"

namespace inferscale::kernels {
namespace {

// One head's row in one layer, as f32.
struct Row {
  float values[limits::kHeadDim];
};

uint16_t Load16(const uint8_t* at) {
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return bits;
}
void Store16(uint8_t* at, uint16_t bits) { std::memcpy(at, &bits, sizeof bits); }

uint32_t Quantum(const uint8_t* row, PayloadEncoding encoding, uint32_t d) {
  if (encoding == PayloadEncoding::kInt8) return row[d];
  return d % 2 == 0 ? row[d / 2] & 15u : row[d / 2] >> 4u;
}
void SetQuantum(uint8_t* row, PayloadEncoding encoding, uint32_t d, uint32_t q) {
  if (encoding == PayloadEncoding::kInt8) {
    row[d] = static_cast<uint8_t>(q);
  } else if (d % 2 == 0) {
    row[d / 2] = static_cast<uint8_t>((row[d / 2] & 0xF0u) | q);
  } else {
    row[d / 2] = static_cast<uint8_t>((row[d / 2] & 0x0Fu) | (q << 4u));
  }
}

// K of (head, layer) of a record: its channels' calibration, null when not quantised.
const KeyQuant* Channels(const KvPlanView& plan, const KvPlanSpan& span, uint32_t layer, uint32_t head) {
  if (!IsQuantised(span.encoding)) return nullptr;
  return plan.sources[span.source].calibration + (size_t{layer} * plan.shape.heads + head) * plan.shape.key_dim;
}

void ReadExact(const uint8_t* row, PayloadEncoding encoding, uint32_t dim, Row& out) {
  for (uint32_t d = 0; d < dim; ++d) {
    const uint16_t bits = Load16(row + 2 * d);
    out.values[d] = encoding == PayloadEncoding::kBf16 ? Bf16ToF32(bits) : F16ToF32Scalar(bits);
  }
}

void ReadKey(const uint8_t* row, PayloadEncoding encoding, const KeyQuant* channels, uint32_t dim, Row& out) {
  if (!IsQuantised(encoding)) return ReadExact(row, encoding, dim, out);
  for (uint32_t d = 0; d < dim; ++d) {
    const float scale = F16ToF32Scalar(channels[d].scale), zero = F16ToF32Scalar(channels[d].zero);
    out.values[d] = std::fma(static_cast<float>(Quantum(row, encoding, d)), scale, zero);
  }
}

void ReadValue(const uint8_t* row, PayloadEncoding encoding, const uint8_t* scale_at, uint32_t dim, Row& out) {
  if (!IsQuantised(encoding)) return ReadExact(row, encoding, dim, out);
  const float scale = F16ToF32Scalar(Load16(scale_at));
  for (uint32_t d = 0; d < dim; ++d) {
    const uint32_t q = Quantum(row, encoding, d);
    const int value = encoding == PayloadEncoding::kInt8 ? static_cast<int8_t>(q) : static_cast<int>(q) - 8;
    out.values[d] = static_cast<float>(value) * scale;
  }
}

void WriteExact(uint8_t* row, PayloadEncoding encoding, uint32_t dim, const Row& in) {
  for (uint32_t d = 0; d < dim; ++d) {
    const float x = in.values[d];
    Store16(row + 2 * d, encoding == PayloadEncoding::kBf16 ? F32ToBf16(x) : F32ToF16Scalar(x));
  }
}

// Returns how many values were clipped.
uint32_t WriteKey(uint8_t* row, PayloadEncoding encoding, const KeyQuant* channels, uint32_t dim, const Row& in) {
  if (!IsQuantised(encoding)) {
    WriteExact(row, encoding, dim, in);
    return 0;
  }
  const float top = encoding == PayloadEncoding::kInt8 ? 255.0f : 15.0f;
  uint32_t clipped = 0;
  for (uint32_t d = 0; d < dim; ++d) {
    const float scale = F16ToF32Scalar(channels[d].scale), zero = F16ToF32Scalar(channels[d].zero);
    const float q = std::nearbyint((in.values[d] - zero) / scale);
    clipped += q < 0 || q > top;
    SetQuantum(row, encoding, d, static_cast<uint32_t>(std::clamp(q, 0.0f, top)));
  }
  return clipped;
}

void WriteValue(uint8_t* row, PayloadEncoding encoding, uint8_t* scale_at, uint32_t dim, const Row& in) {
  if (!IsQuantised(encoding)) return WriteExact(row, encoding, dim, in);
  const float top = encoding == PayloadEncoding::kInt8 ? 127.0f : 7.0f;
  float largest = 0;
  for (uint32_t d = 0; d < dim; ++d) largest = std::max(largest, std::fabs(in.values[d]));
  // 65504: the largest half.
  const uint16_t stored = F32ToF16Scalar(std::min(largest / top, 65504.0f));
  Store16(scale_at, stored);
  const float scale = F16ToF32Scalar(stored);
  for (uint32_t d = 0; d < dim; ++d) {
    const float q = scale > 0 ? std::clamp(std::nearbyint(in.values[d] / scale), -top, top) : 0.0f;
    const int value = static_cast<int>(q);
    SetQuantum(row, encoding, d, encoding == PayloadEncoding::kInt8 ? static_cast<uint8_t>(value) : value + 8);
  }
}

float LoadCache(const uint8_t* row, CacheType type, uint32_t d) {
  if (type == CacheType::kFp8E4m3) return Fp8ToF32(row[d]);
  const uint16_t bits = Load16(row + 2 * d);
  return type == CacheType::kBf16 ? Bf16ToF32(bits) : F16ToF32Scalar(bits);
}

void StoreCache(uint8_t* row, CacheType type, uint32_t d, float value) {
  if (type == CacheType::kFp8E4m3) {
    row[d] = F32ToFp8(value);
  } else {
    Store16(row + 2 * d, type == CacheType::kBf16 ? F32ToBf16(value) : F32ToF16Scalar(value));
  }
}

float TableEntry(const RopeRows& rope, uint32_t position, uint32_t i) {
  const auto* row = static_cast<const uint8_t*>(rope.rows) + position * rope.row_stride;
  if (rope.type == TableType::kBf16) return Bf16ToF32(Load16(row + 2 * i));
  float value;
  std::memcpy(&value, row + 4 * i, sizeof value);
  return value;
}

void Rotate(const KvPlanView& plan, const CacheLayer& layer, uint32_t position, bool inverse, Row& row) {
  if (layer.rope == kNoRope) return;
  const RopeRows& rope = plan.ropes[layer.rope];
  const uint32_t half = rope.rotary_dims / 2;
  for (uint32_t i = 0; i < half; ++i) {
    float& x0 = row.values[rope.pairing == Pairing::kNeoxHalves ? i : 2 * i];
    float& x1 = row.values[rope.pairing == Pairing::kNeoxHalves ? i + half : 2 * i + 1];
    float c = TableEntry(rope, position, i), s = TableEntry(rope, position, half + i);
    if (inverse) {
      const float length = c * c + s * s;
      c = c / length;
      s = -s / length;
    }
    const float y0 = x0 * c - x1 * s, y1 = x0 * s + x1 * c;
    x0 = y0;
    x1 = y1;
  }
}

bool StampIs(const RecordStamp* stamp, const RecordStamp& expected) { return stamp == nullptr || *stamp == expected; }

bool StampsHold(const KvSource& source) {
  return StampIs(source.stamp, source.expected) && StampIs(source.origin, source.expected);
}

// Calls move(span, layer, head, record token, position, cache cell) for every row that there is.
template <class Move>
void ForEachRow(const KvPlanView& plan, const KvPlanSpan& span, uint32_t tokens, Move move) {
  for (uint32_t l = 0; l < plan.layer_count; ++l) {
    const CacheLayer& layer = plan.layers[l];
    for (uint32_t t = 0; t < tokens; ++t) {
      const int64_t cell = CacheCell(plan, layer, span.request, span.position + t);
      if (cell == kNoCell) continue;
      for (uint32_t head = 0; head < plan.shape.heads; ++head) {
        move(layer, head, span.source_first + t, span.position + t, layer.base + cell + head * layer.head_stride);
      }
    }
  }
}

template <class Move>
void ForEachSpan(const KvPlanView& plan, Move move) {
  for (uint32_t s = 0; s < plan.span_count; ++s) move(plan.spans[s], plan.spans[s].end - plan.spans[s].first);
}

}  // namespace

void InjectCpu(const KvPlanView& plan) {
  Row row;
  ForEachSpan(plan, [&](const KvPlanSpan& span, uint32_t tokens) {
    const KvSource& source = plan.sources[span.source];
    const PayloadLayout at = plan.Layout(span);
    if (!StampsHold(source)) plan.status[span.source] |= kStampChangedBefore;
    ForEachRow(plan, span, tokens, [&](const CacheLayer& l, uint32_t head, uint32_t t, uint32_t position, uint8_t* to) {
      const uint32_t layer = l.record_layer;
      ReadKey(span.payload + at.Key(head, layer, t), span.encoding, Channels(plan, span, layer, head),
              plan.shape.key_dim, row);
      Rotate(plan, l, position, /*inverse=*/false, row);
      for (uint32_t d = 0; d < plan.shape.key_dim; ++d) {
        StoreCache(to + l.key_offset, l.type, d, row.values[d] / l.key_scale);
      }
      ReadValue(span.payload + at.Value(head, layer, t), span.encoding, span.payload + at.ValueScale(head, layer, t),
                plan.shape.value_dim, row);
      for (uint32_t d = 0; d < plan.shape.value_dim; ++d) {
        StoreCache(to + l.value_offset, l.type, d, row.values[d] / l.value_scale);
      }
    });
    std::atomic_thread_fence(std::memory_order_acquire);  // the stamp is read after the bytes
    if (!StampsHold(source)) plan.status[span.source] |= kStampChangedAfter;
  });
}

void ExtractCpu(const KvPlanView& plan) {
  Row row;
  ForEachSpan(plan, [&](const KvPlanSpan& span, uint32_t tokens) {
    const PayloadLayout at = plan.Layout(span);
    ForEachRow(plan, span, tokens, [&](const CacheLayer& l, uint32_t head, uint32_t t, uint32_t position, uint8_t* in) {
      const uint32_t layer = l.record_layer;
      for (uint32_t d = 0; d < plan.shape.key_dim; ++d) {
        row.values[d] = LoadCache(in + l.key_offset, l.type, d) * l.key_scale;
      }
      Rotate(plan, l, position, /*inverse=*/true, row);
      plan.status[span.source] += WriteKey(span.payload + at.Key(head, layer, t), span.encoding,
                                           Channels(plan, span, layer, head), plan.shape.key_dim, row);
      for (uint32_t d = 0; d < plan.shape.value_dim; ++d) {
        row.values[d] = LoadCache(in + l.value_offset, l.type, d) * l.value_scale;
      }
      WriteValue(span.payload + at.Value(head, layer, t), span.encoding, span.payload + at.ValueScale(head, layer, t),
                 plan.shape.value_dim, row);
    });
  });
}

}  // namespace inferscale::kernels
