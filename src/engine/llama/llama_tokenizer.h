// A GGUF model's tokenizer. llama.cpp tokenises; what is added here is what its interface does not promise: no control
// token from anybody's text, no dummy prefix space, and no input that makes it throw, overflow or run for minutes.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/llama/text_matcher.h"
#include "engine/tokenizer.h"

struct llama_model;
struct llama_vocab;

namespace inferscale {

// Rules of Text():
// - Forbidden tokens are control, unknown, unused and end-of-generation tokens, and user-defined ones that look like
//   markup: <…>, […], anything with <| or |>. A text that spells one is cut behind the spelling's first character,
//   and the parts are tokenised alone, so that neither parsing nor merging can see it whole.
// - A text over limits::kTokenizeSegmentBytes is tokenised in pieces, cut behind a line break or before a word where
//   there is one: llama.cpp takes quadratic time in the number of user-defined tokens, and std::regex recurses per
//   character.
// - A character of whose bytes one is no token is left out: byte-level vocabularies leave out bytes that their training
//   text did not have (SmolLM2's: six ASCII control characters, and leads of unassigned planes).
// - Ill-formed UTF-8 is the caller's bug; it gives tokens of no particular meaning.
class LlamaTokenizer final : public Tokenizer {
 public:
  // model outlives this. kModelUnsupported: a vocabulary that is neither SentencePiece nor byte-level BPE.
  static Result<std::unique_ptr<LlamaTokenizer>> Make(const llama_model* model);

  Tokens Text(std::string_view text) const override;
  Tokens Markup(std::string_view text) const override;
  std::string Piece(TokenId token) const override;
  bool IsControl(TokenId token) const override;
  bool IsEndOfGeneration(TokenId token) const override;
  TokenId vocabulary_size() const override { return static_cast<TokenId>(forbidden_.size()); }
  std::string bos_text() const override;

  // What a template's bos_token and eos_token stand for: the spelling, whether or not the model adds it by itself.
  std::string bos_spelling() const;
  std::string eos_spelling() const;

 private:
  explicit LlamaTokenizer(const llama_vocab* vocab) : vocab_(vocab) {}
  Status Prepare();
  void PrepareToken(TokenId token);
  Status PrepareGuard();

  Tokens Native(std::string_view text) const;  // llama.cpp's ids of a short text; empty if it refuses
  void AppendSafe(std::string_view segment, Tokens& out) const;
  bool CanSpell(std::string_view character) const;
  void AppendBytes(std::string_view segment, Tokens& out) const;
  size_t EndOfPlain(std::string_view text, size_t at, TextMatcher::Match& match) const;

  const llama_vocab* vocab_;

  // Constant after Make.
  std::vector<bool> forbidden_;             // [vocabulary]
  std::array<TokenId, 256> byte_tokens_{};  // the token of one byte, or -1
  bool lacks_bytes_ = false;                // a byte-level vocabulary without some byte
  TextMatcher cut_;                         // spellings that Text() must not hand over whole
  TextMatcher special_;                     // spellings that Markup() parses -> id
  std::string guard_;                       // goes before every text when the model adds a dummy space; else ""
  Tokens guard_tokens_;                     // what " " + guard_ becomes, taken off again
};

}  // namespace inferscale
