// Where a model's keys lie, channel by channel: what int8 and int4 records are quantised and read with. File format:
// docs/formats/calibration.md.
//
//   key = zero + q * scale, q = 0 … 255 (int8) or 0 … 15 (int4); scale and zero of (layer, kv head, channel)
//
// Values need none: each token's row has a scale of its own in the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/kv_shape.h"
#include "core/types.h"

namespace inferscale {

// IEEE half both. The quantiser uses these rounded numbers, so nothing is lost by it.
struct KeyChannel {
  uint16_t scale = 0;  // > 0
  uint16_t zero = 0;

  bool operator==(const KeyChannel&) const = default;
};

// Immutable. Of one model and one encoding.
class Calibration {
 public:
  // channels: [layers][kv_heads][key_dim]. tokens: how many it was made from, for people. kInvalidArgument: sizes that
  // do not fit or are beyond the limits, an encoding that needs no calibration, a scale or zero that is not finite, a
  // scale that is not positive.
  static Result<Calibration> Make(const ModelKey& model_key, KvEncoding encoding, const KvShape& shape, uint32_t tokens,
                                  std::vector<KeyChannel> channels);

  // Names it: the digest of all that follows. Never zero.
  const Hash128& id() const { return id_; }
  const ModelKey& model_key() const { return model_key_; }
  KvEncoding encoding() const { return encoding_; }
  const KvShape& shape() const { return shape_; }
  uint32_t tokens() const { return tokens_; }
  // In the order that the kernels read, on the host or copied to a device.
  const std::vector<KeyChannel>& channels() const { return channels_; }
  // [key_dim]
  const KeyChannel* Row(uint32_t layer, uint32_t head) const {
    return channels_.data() + (size_t{layer} * shape_.kv_heads + head) * shape_.key_dim;
  }

  std::string Serialize() const;
  // kCorrupt: any byte is not as it was written; kVersionUnsupported: by a later program; kTooLarge.
  static Result<Calibration> Parse(std::string_view bytes);

 private:
  Calibration() = default;
  std::string Body() const;

  Hash128 id_;
  ModelKey model_key_;
  KvEncoding encoding_ = KvEncoding::kInt8;
  KvShape shape_;
  uint32_t tokens_ = 0;
  std::vector<KeyChannel> channels_;
};

// Of a file. All limits of a model's sizes at once would be 4 GiB; 128 layers with 128 heads of 256 are beyond the
// largest known.
inline constexpr size_t kCalibrationBytesMax = 80 + size_t{128} * 128 * 256 * sizeof(KeyChannel);

}  // namespace inferscale
