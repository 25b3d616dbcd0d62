// What an embedding model sees of a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "embed/wordpiece.h"

struct llama_vocab;

namespace inferscale {

class EmbedTokenizer {
 public:
  virtual ~EmbedTokenizer() = default;

  // Token ids with the model's special tokens around them, cut to max_tokens (at least 2) with a closing special token
  // kept. text: valid UTF-8. Thread-safe.
  virtual std::vector<int32_t> Encode(std::string_view text, size_t max_tokens) const = 0;
};

std::unique_ptr<EmbedTokenizer> MakeWordPieceTokenizer(WordPiece tokenizer);

// llama.cpp's own for a model's vocabulary, which outlives it. Special tokens written out in a text are plain text. A
// long text is tokenised in pieces of limits::kTokenizeSegmentBytes: at their borders ids may differ from those of the
// whole, which matters to nobody but for their number.
std::unique_ptr<EmbedTokenizer> MakeVocabTokenizer(const llama_vocab* vocab);

}  // namespace inferscale
