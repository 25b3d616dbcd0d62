#include "embed/embedder.h"

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

Status CheckEmbedTexts(std::span<const std::string_view> texts) {
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto named = [i](const std::string& what) { return "text " + std::to_string(i + 1) + " to embed " + what; };
    if (texts[i].size() > limits::kQuestionBytes)
      return Fail(ErrorCode::kTooLarge,
                  named("is longer than the limit of " + std::to_string(limits::kQuestionBytes) + " bytes"));
    if (const size_t at = FirstInvalidUtf8(texts[i]); at != std::string_view::npos)
      return Fail(ErrorCode::kInvalidUtf8, named("is not valid UTF-8 at byte " + std::to_string(at)));
  }
  return {};
}

}  // namespace inferscale
