// Whole-file reads and atomic writes, with errors that say what to do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// Reads all of a regular file of at most max_bytes. kNotFound, kPermission, kTooLarge, kIo.
Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes);

// Replaces path by the concatenation of pieces: written to a temporary file beside it, fsync'ed, renamed. A crash
// leaves the old file or the new one, never a mixture. kNoSpace, kPermission, kIo.
// kFast leaves out the sync (20 ms on a busy disk): a power cut may then leave a damaged file. For caches
// that check what they read.
enum class Durability : uint8_t { kSynced, kFast };
Status WriteFileAtomic(const std::filesystem::path& path, std::span<const std::string_view> pieces,
                       Durability durability = Durability::kSynced);
Status WriteFileAtomic(const std::filesystem::path& path, std::string_view content);

// Creates a directory and its parents. kPermission, kNoSpace, kIo.
Status MakeDirectories(const std::filesystem::path& path);

// The Error for errno after a failed call on path: its code, and advice for a full disk or missing rights.
Error ErrnoError(int errno_value, std::string_view action, const std::filesystem::path& path);

}  // namespace inferscale
