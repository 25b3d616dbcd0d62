// Tokens to text, in pieces that never cut a code point.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "engine/tokenizer.h"

namespace inferscale {

class TextAssembler {
 public:
  // on_text may be empty; it is called with valid UTF-8 as soon as whole code points are there. Both outlive this.
  TextAssembler(const Tokenizer& tokenizer, const std::function<void(std::string_view)>& on_text)
      : tokenizer_(tokenizer), on_text_(on_text) {}

  void Add(TokenId token);
  void Finish();  // bytes that never became UTF-8 turn into U+FFFD
  const std::string& text() const { return text_; }

 private:
  void Flush(size_t bytes);

  const Tokenizer& tokenizer_;
  const std::function<void(std::string_view)>& on_text_;
  std::string pending_, text_;
};

}  // namespace inferscale
