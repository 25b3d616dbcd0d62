#include "engine/llama/llama_tokenizer.h"

#include <llama.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <unordered_map>
#include <utility>

#include "base/assert.h"
#include "base/utf8.h"
#include "engine/llama/text_segments.h"

namespace inferscale {

namespace {

// A text seen again within one call is copied, not tokenised, if it is at most this long: what an adversary repeats is
// a special token's spelling, and each call into llama.cpp costs 10 to 100 us however short the text.
constexpr size_t kMemoBytes = 64;

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581: SentencePiece's way to write a space

bool HasAttr(const llama_vocab* vocab, TokenId token, int attr) {
  return (llama_vocab_get_attr(vocab, token) & attr) != 0;
}

bool LooksLikeMarkup(std::string_view text) {
  if (text.find("<|") != std::string_view::npos || text.find("|>") != std::string_view::npos) return true;
  if (text.size() < 3) return false;
  return (text.front() == '<' && text.back() == '>') || (text.front() == '[' && text.back() == ']');
}

bool IsForbidden(const llama_vocab* vocab, TokenId token, std::string_view text) {
  if (llama_vocab_is_eog(vocab, token)) return true;
  if (HasAttr(vocab, token, LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN | LLAMA_TOKEN_ATTR_UNUSED)) return true;
  return HasAttr(vocab, token, LLAMA_TOKEN_ATTR_USER_DEFINED) && LooksLikeMarkup(text);
}

std::string MarksToSpaces(std::string text) {
  size_t at = 0;
  while ((at = text.find(kSpaceMark, at)) != std::string::npos) text.replace(at++, kSpaceMark.size(), " ");
  return text;
}

size_t FirstCodePointBytes(std::string_view text, size_t at) {
  return std::min(CodePointBytes(text, at), text.size() - at);
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

}  // namespace

Result<std::unique_ptr<LlamaTokenizer>> LlamaTokenizer::Make(const llama_model* model) {
  INFERSCALE_ASSERT(model != nullptr);
  const llama_vocab* vocab = llama_model_get_vocab(model);
  const auto type = llama_vocab_type(vocab);
  if (type != LLAMA_VOCAB_TYPE_SPM && type != LLAMA_VOCAB_TYPE_BPE) {
    return Fail(ErrorCode::kModelUnsupported,
                "the model's tokenizer is neither SentencePiece nor byte-level BPE "
                "(llama.cpp vocabulary type " +
                    std::to_string(int{type}) + ")");
  }
  std::unique_ptr<LlamaTokenizer> tokenizer(new LlamaTokenizer(vocab));
  TRY(tokenizer->Prepare());
  return tokenizer;
}

Status LlamaTokenizer::Prepare() {
  const TokenId size = llama_vocab_n_tokens(vocab_);
  if (size <= 0) return Fail(ErrorCode::kModelUnsupported, "the model has no vocabulary");
  forbidden_.assign(static_cast<size_t>(size), false);
  byte_tokens_.fill(-1);
  for (TokenId token = 0; token < size; ++token) PrepareToken(token);

  lacks_bytes_ = llama_vocab_type(vocab_) == LLAMA_VOCAB_TYPE_BPE &&
                 std::find(byte_tokens_.begin(), byte_tokens_.end(), -1) != byte_tokens_.end();

  const Tokens letter = Native("a");
  std::string spelled;
  for (const TokenId token : letter) spelled += Piece(token);
  if (spelled == " a") TRY(PrepareGuard());
  return {};
}

void LlamaTokenizer::PrepareToken(TokenId token) {
  const std::string text = llama_vocab_get_text(vocab_, token);
  const bool user_defined = HasAttr(vocab_, token, LLAMA_TOKEN_ATTR_USER_DEFINED);
  if (IsForbidden(vocab_, token, text)) {
    forbidden_[static_cast<size_t>(token)] = true;
    cut_.Add(text, token);
    cut_.Add(MarksToSpaces(text), token);
  } else if (const std::string piece = Piece(token); piece.size() == 1 && !user_defined) {
    byte_tokens_[static_cast<unsigned char>(piece[0])] = token;
  }
  if (user_defined || HasAttr(vocab_, token, LLAMA_TOKEN_ATTR_CONTROL | LLAMA_TOKEN_ATTR_UNKNOWN)) {
    special_.Add(text, token);
  }
}

// llama.cpp puts a space before a text, and before every text behind a user-defined token. The first is taken off by
// means of a guard: a character that no token but its own contains, so that no merge crosses it and the tokens of
// " " + guard are always the first ones. The second is avoided by cutting user-defined spellings too.
Status LlamaTokenizer::PrepareGuard() {
  const std::string candidates = "\n\x01\x02\x03\x1D\x1E\x1F\r\t";
  std::array<bool, 256> usable{};
  for (const char c : candidates) usable[static_cast<unsigned char>(c)] = true;
  for (TokenId token = 0; token < vocabulary_size(); ++token) {
    const std::string text = llama_vocab_get_text(vocab_, token);
    const bool special = HasAttr(vocab_, token, LLAMA_TOKEN_ATTR_USER_DEFINED | LLAMA_TOKEN_ATTR_CONTROL);
    if (text.size() > 1 || special) {
      for (const char c : text) usable[static_cast<unsigned char>(c)] = false;
    }
    if (HasAttr(vocab_, token, LLAMA_TOKEN_ATTR_USER_DEFINED)) cut_.Add(text, token);
  }
  for (const char c : candidates) {
    if (!usable[static_cast<unsigned char>(c)]) continue;
    guard_tokens_ = Native(std::string_view(&c, 1));
    guard_ = c;
    if (!guard_tokens_.empty()) return {};
  }
  return Fail(ErrorCode::kModelUnsupported,
              "the tokenizer adds a space before every text, and no character was found "
              "by which to take it off again");
}

Tokens LlamaTokenizer::Native(std::string_view text) const {
  if (text.empty()) return {};
  const std::string input = guard_ + std::string(text);
  INFERSCALE_ASSERT(input.size() <= size_t{std::numeric_limits<int32_t>::max()} / 4);
  // At most a token per byte, and the dummy space.
  Tokens ids(input.size() + 8);
  int32_t count = 0;
  try {
    const auto bytes = static_cast<int32_t>(input.size());
    const auto call = [&] {
      return llama_tokenize(vocab_, input.data(), bytes, ids.data(), static_cast<int32_t>(ids.size()), false, false);
    };
    count = call();
    if (count < 0 && count != std::numeric_limits<int32_t>::min()) {
      ids.resize(static_cast<size_t>(-count));
      count = call();
    }
  } catch (const std::exception&) {
    return {};  // a byte that the vocabulary lacks, or ill-formed UTF-8
  }
  if (count < 0) return {};
  ids.resize(static_cast<size_t>(count));
  if (guard_.empty()) return ids;
  const bool guarded =
      ids.size() >= guard_tokens_.size() && std::equal(guard_tokens_.begin(), guard_tokens_.end(), ids.begin());
  if (!guarded) return {};
  ids.erase(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(guard_tokens_.size()));
  return ids;
}

bool LlamaTokenizer::CanSpell(std::string_view character) const {
  return !lacks_bytes_ || std::all_of(character.begin(), character.end(),
                                      [&](char c) { return byte_tokens_[static_cast<unsigned char>(c)] >= 0; });
}

// The tokens of each byte; a byte without one is left out.
void LlamaTokenizer::AppendBytes(std::string_view segment, Tokens& out) const {
  for (const char c : segment) {
    const TokenId token = byte_tokens_[static_cast<unsigned char>(c)];
    if (token >= 0) out.push_back(token);
  }
}

// Cutting beforehand leaves nothing forbidden to find here, unless a spelling was missed: then the text is cut again,
// behind the first character of the token that arose, until none is left. Ends: every part is shorter.
void LlamaTokenizer::AppendSafe(std::string_view segment, Tokens& out) const {
  std::vector<std::string_view> work{segment};
  while (!work.empty()) {
    const std::string_view text = work.back();
    work.pop_back();
    if (text.empty()) continue;
    const Tokens ids = Native(text);
    if (ids.empty()) {
      AppendBytes(text, out);
      continue;
    }
    const auto bad = std::find_if(ids.begin(), ids.end(), [&](TokenId id) { return IsControl(id); });
    if (bad == ids.end()) {
      out.insert(out.end(), ids.begin(), ids.end());
      continue;
    }
    size_t offset = 0;
    for (auto id = ids.begin(); id != bad; ++id) offset += Piece(*id).size();
    offset = FloorToCodePoint(text, std::min(offset, text.size() - 1));
    size_t cut = offset + FirstCodePointBytes(text, offset);
    if (cut >= text.size()) cut = offset;
    if (cut == 0) {
      AppendBytes(text, out);
      continue;
    }
    work.push_back(text.substr(cut));
    work.push_back(text.substr(0, cut));
  }
}

Tokens LlamaTokenizer::Text(std::string_view text) const {
  Tokens out;
  std::unordered_map<std::string_view, std::pair<size_t, size_t>> seen;  // segment -> [begin, end) in out
  const auto append = [&](std::string_view segment) {
    if (segment.size() <= kMemoBytes && segment.size() < text.size()) {
      const auto [entry, is_new] = seen.try_emplace(segment, out.size(), 0);
      if (is_new) {
        AppendSafe(segment, out);
        entry->second.second = out.size();
      } else {
        const auto [begin, end] = entry->second;
        for (size_t i = begin; i < end; ++i) out.push_back(out[i]);
      }
      return;
    }
    ForEachSegment(segment, [&](std::string_view part) { AppendSafe(part, out); });
  };
  size_t begin = 0;
  for (size_t at = 0; at < text.size();) {
    const TextMatcher::Match match = cut_.LongestAt(text, at);
    const size_t first = FirstCodePointBytes(text, at);
    if (match.bytes > first) {
      append(text.substr(begin, at + first - begin));
      begin = at + first;
    } else if (match.bytes > 0) {  // one character: nothing to cut, so it stands alone
      if (at > begin) append(text.substr(begin, at - begin));
      if (IsControl(match.value)) {
        AppendBytes(text.substr(at, first), out);
      } else {
        out.push_back(match.value);
      }
      begin = at + first;
    } else if (!CanSpell(text.substr(at, first))) {
      if (at > begin) append(text.substr(begin, at - begin));
      begin = at + first;
    }
    at += first;
  }
  if (begin < text.size()) append(text.substr(begin));
  return out;
}

size_t LlamaTokenizer::EndOfPlain(std::string_view text, size_t at, TextMatcher::Match& match) const {
  for (; at < text.size(); at += FirstCodePointBytes(text, at)) {
    match = special_.LongestAt(text, at);
    if (match.bytes > 0) return at;
  }
  match = {};
  return text.size();
}

// Partitioned here and not by llama.cpp, which would put a dummy space behind every control token of models that have
// one: then pieces tokenised alone could not equal the whole.
Tokens LlamaTokenizer::Markup(std::string_view text) const {
  Tokens out;
  bool strip_left = false;  // the token before eats the white space behind it
  for (size_t at = 0; at < text.size();) {
    TextMatcher::Match match;
    const size_t end = EndOfPlain(text, at, match);
    std::string_view plain = text.substr(at, end - at);
    while (strip_left && !plain.empty() && IsSpace(plain.front())) plain.remove_prefix(1);
    const bool strip_right = match.bytes > 0 && HasAttr(vocab_, match.value, LLAMA_TOKEN_ATTR_LSTRIP);
    while (strip_right && !plain.empty() && IsSpace(plain.back())) plain.remove_suffix(1);
    ForEachSegment(plain, [&](std::string_view part) {
      const Tokens ids = Native(part);
      out.insert(out.end(), ids.begin(), ids.end());
    });
    if (match.bytes > 0) {
      out.push_back(match.value);
      strip_left = HasAttr(vocab_, match.value, LLAMA_TOKEN_ATTR_RSTRIP);
    }
    at = end + match.bytes;
  }
  return out;
}

std::string LlamaTokenizer::Piece(TokenId token) const {
  if (token < 0 || token >= vocabulary_size()) return "";
  std::string piece(32, '\0');  // the longest of common vocabularies fit at once
  int32_t bytes = llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, true);
  if (bytes < 0) {
    piece.resize(static_cast<size_t>(-bytes));
    bytes = llama_token_to_piece(vocab_, token, piece.data(), static_cast<int32_t>(piece.size()), 0, true);
  }
  piece.resize(static_cast<size_t>(std::max(bytes, 0)));
  return piece;
}

bool LlamaTokenizer::IsControl(TokenId token) const {
  return token < 0 || token >= vocabulary_size() || forbidden_[static_cast<size_t>(token)];
}

bool LlamaTokenizer::IsEndOfGeneration(TokenId token) const {
  return token >= 0 && token < vocabulary_size() && llama_vocab_is_eog(vocab_, token);
}

std::string LlamaTokenizer::bos_text() const { return llama_vocab_get_add_bos(vocab_) ? bos_spelling() : ""; }
std::string LlamaTokenizer::bos_spelling() const { return Piece(llama_vocab_bos(vocab_)); }
std::string LlamaTokenizer::eos_spelling() const { return Piece(llama_vocab_eos(vocab_)); }

}  // namespace inferscale
