// Text to vector.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace inferscale {

class Embedder {
 public:
  virtual ~Embedder() = default;

  virtual uint32_t dim() const = 0;
  virtual const std::string& name() const = 0;
  virtual Hash128 key() const = 0;  // identity of weights and tokenizer: vectors of different keys never mix

  // Tokens the embedder would use for a text, [CLS] and [SEP] included, uncut: for splitting long facts. An endpoint's
  // are an estimate.
  virtual size_t CountTokens(std::string_view text) const = 0;

  // Unit vectors, [texts.size()][dim] in one array. Texts over limits::kEmbedTokens are cut there, [SEP] kept. An empty
  // text has a vector too. Thread-safe (calls take turns). kInvalidUtf8, kEngine.
  virtual Result<std::vector<float>> Embed(std::span<const std::string_view> texts) = 0;
};

// For embedders: what Embed refuses. kTooLarge: over limits::kQuestionBytes; kInvalidUtf8. Names the text by its place.
Status CheckEmbedTexts(std::span<const std::string_view> texts);

}  // namespace inferscale
