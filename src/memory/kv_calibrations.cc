#include "memory/kv_calibrations.h"

#include <spdlog/spdlog.h>

#include <optional>

#include "store/calibration_file.h"

namespace inferscale {

Result<CalibrationHandle> KvCalibrations::Find(const ModelKey& model, KvEncoding encoding) {
  const std::lock_guard lock(mutex_);
  const auto known = known_.find({model, encoding});
  if (known != known_.end()) return known->second;
  CalibrationHandle handle;
  Result<std::optional<Calibration>> read = ReadCalibrationFile(folder_, model, encoding);
  if (!read) {
    const ErrorCode code = read.error().code;
    if (code != ErrorCode::kCorrupt && code != ErrorCode::kVersionUnsupported)
      return tl::unexpected<Error>(std::move(read).error());
    spdlog::warn("{}: KV that was stored with it is computed again", read.error().message);
  } else if (*read) {
    handle = std::make_shared<const Calibration>(std::move(**read));
  }
  known_.emplace(std::pair(model, encoding), handle);
  return handle;
}

Status KvCalibrations::Keep(CalibrationHandle calibration) {
  const std::lock_guard lock(mutex_);
  TRY(WriteCalibrationFile(folder_, *calibration));
  const std::pair key(calibration->model_key(), calibration->encoding());
  known_.insert_or_assign(key, std::move(calibration));
  return {};
}

}  // namespace inferscale
