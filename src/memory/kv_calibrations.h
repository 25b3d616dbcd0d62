// The calibrations that a memory's records are quantised with: files in its folder, each read once and kept.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "core/calibration.h"

namespace inferscale {

using CalibrationHandle = std::shared_ptr<const Calibration>;

// Thread-safe.
class KvCalibrations {
 public:
  explicit KvCalibrations(std::filesystem::path folder) : folder_(std::move(folder)) {}

  // Null: there is none, or it is damaged (told once): its records count as damaged too, and another one will be made.
  // kPermission, kIo.
  Result<CalibrationHandle> Find(const ModelKey& model, KvEncoding encoding);
  // Durable on return; the one to be found from now on. kNoSpace, kPermission, kIo.
  Status Keep(CalibrationHandle calibration);

 private:
  std::filesystem::path folder_;
  std::mutex mutex_;
  std::map<std::pair<ModelKey, KvEncoding>, CalibrationHandle> known_;
};

}  // namespace inferscale
