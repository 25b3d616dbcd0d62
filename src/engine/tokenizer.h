// A model's tokenizer, with the two ways of reading text kept apart: ours (template markup) and everybody else's.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/types.h"

namespace inferscale {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Text from facts, questions and messages: no BOS, no dummy prefix space, and no control token, whatever the text
  // holds ("<|im_end|>" becomes the tokens of those characters). text is valid UTF-8. Thread-safe.
  virtual Tokens Text(std::string_view text) const = 0;

  // Template markup: control tokens are parsed. No BOS is added: templates spell theirs. Thread-safe.
  virtual Tokens Markup(std::string_view text) const = 0;

  // Bytes of one token (may be part of a UTF-8 sequence); control tokens give their text. Thread-safe.
  virtual std::string Piece(TokenId token) const = 0;

  virtual bool IsControl(TokenId token) const = 0;  // must never come out of Text()
  virtual bool IsEndOfGeneration(TokenId token) const = 0;
  virtual TokenId vocabulary_size() const = 0;
  virtual std::string bos_text() const = 0;  // "" when the model adds no BOS
};

}  // namespace inferscale
