// The vault: records as int8 and int4, and the calibrations that takes.
#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/limits.h"
#include "memory/kv_vault.h"
#include "store/calibrator.h"

namespace inferscale {

namespace {

constexpr size_t kReadAtOnce = 64;  // records

}  // namespace

Result<EncodedRecord> KvVault::Encode(const KvRecord& record) {
  const KvShape& shape = record.payload.shape();
  if (!IsQuantised(encoding_) || !shape.CanStoreAs(encoding_)) return EncodeRecord(record, KvEncoding::kF16, nullptr);
  TRY_ASSIGN(const CalibrationHandle calibration, CalibrationFor(record.key.model_key, shape));
  TRY_ASSIGN(EncodedRecord encoded, EncodeRecord(record, encoding_, calibration.get()));
  ++(IsQuantised(encoded.key.encoding) ? quantised_ : exact_);
  key_values_ += encoded.key_values;
  clipped_ += encoded.clipped;
  if (calibration == nullptr) {
    const std::lock_guard lock(calibrate_mutex_);
    exact_tokens_[record.key.model_key.Hex()] += record.tokens();
  }
  return encoded;
}

// Null: not enough exact records yet.
Result<CalibrationHandle> KvVault::CalibrationFor(const ModelKey& model, const KvShape& shape) {
  TRY_ASSIGN(CalibrationHandle calibration, calibrations_.Find(model, encoding_));
  if (calibration != nullptr) return calibration;
  const std::lock_guard lock(calibrate_mutex_);
  TRY_ASSIGN(calibration, calibrations_.Find(model, encoding_));  // another thread may just have made it
  if (calibration != nullptr) return calibration;
  const auto counted = exact_tokens_.find(model.Hex());
  if (counted != exact_tokens_.end() && counted->second < limits::kCalibrationTokensMin) return calibration;
  return MakeCalibration(model, shape);
}

// From exact records in the store; calibrate_mutex_ is held.
Result<CalibrationHandle> KvVault::MakeCalibration(const ModelKey& model, const KvShape& shape) {
  std::vector<ReadRequest> exact;
  uint64_t tokens = 0;
  TRY(catalog_.ScanRecords([&](const KvRow& row) {
    if (row.model_key == model && row.encoding == KvEncoding::kF16) {
      exact.push_back({row.record, StoreLocation(row.location), {}});
      tokens += row.n_tokens;
    }
    return tokens < limits::kCalibrationTokensMin;
  }));
  Calibrator calibrator(model, shape);
  for (size_t at = 0; at < exact.size() && tokens >= limits::kCalibrationTokensMin; at += kReadAtOnce) {
    const auto batch = std::span(exact).subspan(at, std::min(kReadAtOnce, exact.size() - at));
    for (Result<RecordBytes>& read : store_->ReadBatch(batch)) {
      if (!read) continue;  // forgotten, moved or damaged: whoever wants it will see
      auto owner = std::make_shared<const RecordBytes>(std::move(*read));
      const Result<KvRecord> record = ViewRecord(owner->bytes(), owner);
      if (record) (void)calibrator.Add(record->payload);  // one that is not finite, or of another shape, is left out
    }
  }
  exact_tokens_[model.Hex()] = tokens < limits::kCalibrationTokensMin ? tokens : calibrator.tokens();
  if (calibrator.tokens() < limits::kCalibrationTokensMin) return CalibrationHandle();
  TRY_ASSIGN(Calibration made, calibrator.Finish(encoding_));
  auto calibration = std::make_shared<const Calibration>(std::move(made));
  TRY(calibrations_.Keep(calibration));
  spdlog::info("KV is stored as {} from now on: calibrated with {} tokens", KvEncodingName(encoding_),
               calibration->tokens());
  return CalibrationHandle(std::move(calibration));
}

QuantisedStats KvVault::quantised_stats() const { return {quantised_, exact_, key_values_, clipped_}; }

}  // namespace inferscale
