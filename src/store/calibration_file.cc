#include "store/calibration_file.h"

#include "base/file.h"

namespace inferscale {

namespace fs = std::filesystem;

fs::path CalibrationPath(const fs::path& folder, const ModelKey& model_key, KvEncoding encoding) {
  return folder / (model_key.Hex() + (encoding == KvEncoding::kInt4 ? ".int4.cal" : ".int8.cal"));
}

Status WriteCalibrationFile(const fs::path& folder, const Calibration& calibration) {
  TRY(MakeDirectories(folder));
  return WriteFileAtomic(CalibrationPath(folder, calibration.model_key(), calibration.encoding()),
                         calibration.Serialize());
}

Result<std::optional<Calibration>> ReadCalibrationFile(const fs::path& folder, const ModelKey& model_key,
                                                       KvEncoding encoding) {
  const fs::path path = CalibrationPath(folder, model_key, encoding);
  const auto bytes = ReadFile(path, kCalibrationBytesMax);
  if (!bytes && bytes.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!bytes) return tl::unexpected<Error>(bytes.error());
  auto parsed = Calibration::Parse(*bytes);
  if (!parsed) return Wrap(parsed.error(), path.string());
  if (parsed->model_key() != model_key || parsed->encoding() != encoding)
    return Fail(ErrorCode::kCorrupt, path.string() + ": it is the calibration of another model or encoding");
  return std::optional<Calibration>(std::move(*parsed));
}

}  // namespace inferscale
