// Makes a calibration from records: the 0.1 and 99.9 percentiles of each key channel. The few values beyond are
// clipped: a range from minimum to maximum would give its steps to outliers.
//
// Use texts like those that will be stored, not few facts again and again. A model's keys lie where its weights put
// them: records of other texts are clipped hardly more often than those that the calibration saw.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/limits.h"
#include "core/calibration.h"
#include "core/kv_record.h"

namespace inferscale {

// One thread at a time.
class Calibrator {
 public:
  Calibrator(const ModelKey& model_key, const KvShape& shape);

  // Looks at a payload's keys (before rotation, f16). kInvalidArgument: another shape, or an element that is infinite
  // or NaN; nothing of it is counted then. kTooLarge: more than limits::kCalibrationTokensMax tokens in all.
  Status Add(const KvPayload& payload);
  uint32_t tokens() const { return tokens_; }

  // int8 or int4, each with steps of its own. kInvalidArgument: fewer than limits::kCalibrationTokensMin tokens, or an
  // encoding that the model cannot have.
  Result<Calibration> Finish(KvEncoding encoding) const;

 private:
  // A percentile is a place among a channel's sorted values, and only the outermost are ever asked for: at 16,384
  // tokens the 17th, and the one behind it. Bits of halves as integers in the same order.
  static constexpr double kShare = 0.001;
  static constexpr size_t kTail = static_cast<size_t>(limits::kCalibrationTokensMax * kShare) + 2;
  struct Tails {
    std::array<int16_t, kTail> lowest;   // ascending
    std::array<int16_t, kTail> highest;  // descending
  };
  KeyChannel ChannelOf(const Tails& tails, double top) const;

  ModelKey model_key_;
  KvShape shape_;
  uint32_t tokens_ = 0;
  std::vector<Tails> channels_;  // [layers][kv_heads][key_dim]
};

}  // namespace inferscale
