// BERT's WordPiece tokenizer, uncased, giving the ids of the one that sentence embedders were trained with. llama.cpp's
// differs from it on Korean, Hindi, Bengali, keycap emoji and long words, and a vector of other ids is another vector.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"

namespace inferscale {

class WordPiece {
 public:
  // pieces[id]: the original vocabulary; pieces that continue a word start with "##". It must have [CLS], [SEP], [UNK],
  // [PAD] and [MASK], and no piece twice. kModelUnsupported.
  static Result<WordPiece> Make(std::span<const std::string> pieces);

  // [CLS] … [SEP], cut to max_tokens (at least 2) with [SEP] kept. Ill-formed UTF-8 is dropped. "[SEP]" and the like in
  // the text become those tokens, as in the original: an encoder takes no orders, nothing can be forged with them.
  std::vector<int32_t> Encode(std::string_view text, size_t max_tokens) const;

  size_t size() const { return size_; }

 private:
  struct StringHash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  using Pieces = std::unordered_map<std::string, int32_t, StringHash, std::equal_to<>>;

  struct Special {
    std::string_view text;
    int32_t id;
  };

  WordPiece() = default;
  const Special* SpecialAt(std::string_view text) const;
  void EncodeSegment(std::string_view text, size_t max_tokens, std::vector<int32_t>& ids) const;
  void EncodeWord(std::u32string_view word, std::vector<int32_t>& ids) const;

  // Constant after Make.
  size_t size_ = 0;
  size_t longest_ = 0;   // bytes of the longest piece
  Pieces first_, next_;  // pieces that start a word; pieces that continue one, without "##"
  std::array<Special, 5> specials_;
};

}  // namespace inferscale
