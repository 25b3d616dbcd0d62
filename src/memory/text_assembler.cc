#include "memory/text_assembler.h"

#include <algorithm>

#include "base/utf8.h"

namespace inferscale {

namespace {
// A UTF-8 sequence has at most four bytes, so three may wait for the next token.
constexpr size_t kUnfinishedBytesMax = 3;
}  // namespace

void TextAssembler::Add(TokenId token) {
  pending_ += tokenizer_.Piece(token);
  const size_t valid = std::min(FirstInvalidUtf8(pending_), pending_.size());
  if (pending_.size() - valid <= kUnfinishedBytesMax)
    Flush(valid);
  else
    Finish();
}

void TextAssembler::Finish() {
  for (size_t bad; (bad = FirstInvalidUtf8(pending_)) != std::string::npos;) pending_.replace(bad, 1, "\xEF\xBF\xBD");
  Flush(pending_.size());
}

void TextAssembler::Flush(size_t bytes) {
  if (bytes == 0) return;
  text_.append(pending_, 0, bytes);
  if (on_text_) on_text_(std::string_view(pending_).substr(0, bytes));
  pending_.erase(0, bytes);
}

}  // namespace inferscale
