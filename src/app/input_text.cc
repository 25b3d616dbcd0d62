#include "app/input_text.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>

#include "base/file.h"
#include "base/limits.h"

namespace inferscale {

std::string InputName(const std::filesystem::path& path) { return path == "-" ? "standard input" : path.string(); }

Result<std::string> ReadInput(const std::filesystem::path& path) {
  if (path != "-") return ReadFile(path, limits::kFactFileBytes);
  constexpr size_t kPiece = 1 << 16;
  std::string content;
  for (size_t got = kPiece; got == kPiece;) {
    const size_t before = content.size();
    content.resize(before + kPiece);
    got = std::fread(content.data() + before, 1, kPiece, stdin);
    content.resize(before + got);
    if (content.size() > limits::kFactFileBytes)
      return Fail(ErrorCode::kTooLarge, fmt::format("standard input has more than {} bytes: send it in several calls",
                                                    limits::kFactFileBytes));
  }
  if (std::ferror(stdin) != 0) return tl::unexpected<Error>(ErrnoError(errno, "read", "standard input"));
  return content;
}

}  // namespace inferscale
