// A model's calibrations in a folder, one file each (docs/formats/calibration.md):
//
//   <folder>/<model key>.int8.cal, <model key>.int4.cal
//
// A calibration is kept until it is replaced: without it the records made with it are of no use. It is no more than
// derived data all the same: a lost one costs encoding those records again.
#pragma once

#include <filesystem>
#include <optional>

#include "base/error.h"
#include "core/calibration.h"

namespace inferscale {

// Durable on return, whole or not at all: call it before any record that names the calibration is stored. The folder is
// made when it is not there. kNoSpace, kPermission, kIo.
Status WriteCalibrationFile(const std::filesystem::path& folder, const Calibration& calibration);

// Nothing: there is none, and records are f16. kCorrupt (also: of another model than its name says),
// kVersionUnsupported, kPermission, kIo.
Result<std::optional<Calibration>> ReadCalibrationFile(const std::filesystem::path& folder, const ModelKey& model_key,
                                                       KvEncoding encoding);

std::filesystem::path CalibrationPath(const std::filesystem::path& folder, const ModelKey& model_key,
                                      KvEncoding encoding);

}  // namespace inferscale
