#include "embed/embed_tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <utility>

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

namespace {

class WordPieceTokenizer final : public EmbedTokenizer {
 public:
  explicit WordPieceTokenizer(WordPiece tokenizer) : tokenizer_(std::move(tokenizer)) {}
  std::vector<int32_t> Encode(std::string_view text, size_t max_tokens) const override {
    return tokenizer_.Encode(text, max_tokens);
  }

 private:
  const WordPiece tokenizer_;
};

class VocabTokenizer final : public EmbedTokenizer {
 public:
  explicit VocabTokenizer(const llama_vocab* vocab) : vocab_(vocab) {
    // What stands around the empty text stands around each. A text's first and last piece would both get them.
    frame_ = Tokenize("", true);
    const int32_t last = frame_.empty() ? -1 : frame_.back();
    has_closing_ = last >= 0 && (last == llama_vocab_eos(vocab) || last == llama_vocab_sep(vocab)) &&
                   (frame_.size() > 1 || last != llama_vocab_bos(vocab));
  }

  std::vector<int32_t> Encode(std::string_view text, size_t max_tokens) const override {
    const size_t closing = has_closing_ ? 1 : 0;
    std::vector<int32_t> ids(frame_.begin(), frame_.end() - static_cast<std::ptrdiff_t>(closing));
    const size_t max_open = max_tokens - closing;
    while (!text.empty() && ids.size() < max_open) {
      const size_t bytes = PieceBytes(text);
      const std::vector<int32_t> piece = Tokenize(text.substr(0, bytes), false);
      ids.insert(ids.end(), piece.begin(), piece.end());
      text.remove_prefix(bytes);
    }
    if (ids.size() > max_open) ids.resize(max_open);
    if (ids.empty() && !has_closing_) ids.push_back(0);  // an empty text has a vector too: any token's
    if (has_closing_) ids.push_back(frame_.back());
    return ids;
  }

 private:
  // Up to the limit, if possible at a space: few words continue over one.
  static size_t PieceBytes(std::string_view text) {
    if (text.size() <= limits::kTokenizeSegmentBytes) return text.size();
    const size_t space = text.rfind(' ', limits::kTokenizeSegmentBytes);
    return space != std::string_view::npos && space > 0 ? space : FloorToCodePoint(text, limits::kTokenizeSegmentBytes);
  }

  std::vector<int32_t> Tokenize(std::string_view text, bool add_special) const {
    // A token has at least a byte, but for what is added: the frame, and the space before the text of some tokenizers.
    std::vector<int32_t> ids(text.size() + 8);
    const auto run = [&] {
      return llama_tokenize(vocab_, text.data(), static_cast<int32_t>(text.size()), ids.data(),
                            static_cast<int32_t>(ids.size()), add_special, /*parse_special=*/false);
    };
    int32_t count = run();
    if (count < 0) {  // it needs this many
      ids.resize(static_cast<size_t>(-static_cast<int64_t>(count)));
      count = run();
    }
    ids.resize(static_cast<size_t>(std::max(count, 0)));
    return ids;
  }

  const llama_vocab* vocab_;
  std::vector<int32_t> frame_;  // special tokens around a text, closing one last
  bool has_closing_ = false;
};

}  // namespace

std::unique_ptr<EmbedTokenizer> MakeWordPieceTokenizer(WordPiece tokenizer) {
  return std::make_unique<WordPieceTokenizer>(std::move(tokenizer));
}

std::unique_ptr<EmbedTokenizer> MakeVocabTokenizer(const llama_vocab* vocab) {
  return std::make_unique<VocabTokenizer>(vocab);
}

}  // namespace inferscale
