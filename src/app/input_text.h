// All of a file, or of standard input.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.h"

namespace inferscale {

// What errors call it: the path, or "standard input" for "-".
std::string InputName(const std::filesystem::path& path);
// At most limits::kFactFileBytes. Errors: those of ReadFile.
Result<std::string> ReadInput(const std::filesystem::path& path);

}  // namespace inferscale
