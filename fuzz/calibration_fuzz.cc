// A calibration file of any bytes is refused or understood, and what is understood is written back byte for byte.
//
// The digest refuses nearly every mutation before anything else of it is looked at, so each input is tried a second
// time with a digest that fits.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "core/calibration.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

void ParseAndWriteBack(std::string_view bytes) {
  const auto calibration = inferscale::Calibration::Parse(bytes);
  if (!calibration) {
    Check(!calibration.error().message.empty());
    return;
  }
  Check(calibration->Serialize() == bytes);
  for (const inferscale::KeyChannel& channel : calibration->channels()) Check(channel.scale > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  ParseAndWriteBack(bytes);
  if (size < 16) return 0;
  const inferscale::Hash128 id = inferscale::HashBytes(bytes.data(), size - 16);
  std::memcpy(bytes.data() + size - 16, &id.high, 8);
  std::memcpy(bytes.data() + size - 8, &id.low, 8);
  ParseAndWriteBack(bytes);
  return 0;
}
