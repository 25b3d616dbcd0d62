#include "embed/wordpiece.h"

#include <algorithm>

#include "base/assert.h"
#include "embed/unicode.h"

namespace inferscale {

namespace {

constexpr size_t kWordChars = 100;              // a longer word is [UNK], as in the original
constexpr size_t kCls = 0, kSep = 1, kUnk = 2;  // places in specials_
constexpr std::array<std::string_view, 5> kSpecialTexts = {"[CLS]", "[SEP]", "[UNK]", "[PAD]", "[MASK]"};

// Control characters dropped, white space made plain, ideographs set apart, accents and case removed, in the original's
// order.
std::u32string Normalize(std::string_view text) {
  std::u32string spaced;
  spaced.reserve(text.size());
  for (const char32_t c : unicode::DecodeUtf8(text)) {
    if (c == 0xFFFD || unicode::IsControl(c)) continue;
    if (unicode::IsSpace(c))
      spaced += U' ';
    else if (unicode::IsIdeograph(c))
      spaced.append({U' ', c, U' '});
    else
      spaced += c;
  }
  std::u32string out;
  out.reserve(spaced.size());
  for (const char32_t c : unicode::CanonicalDecomposition(spaced))
    if (!unicode::IsNonspacingMark(c)) out += unicode::LowerCase(c);
  return out;
}

}  // namespace

Result<WordPiece> WordPiece::Make(std::span<const std::string> pieces) {
  WordPiece made;
  made.size_ = pieces.size();
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces[id];
    const bool continues = piece.size() > 2 && piece.starts_with("##");
    const std::string_view text = continues ? piece.substr(2) : piece;
    if (text.empty() || !(continues ? made.next_ : made.first_).emplace(text, static_cast<int32_t>(id)).second)
      return Fail(ErrorCode::kModelUnsupported,
                  "its vocabulary has token " + std::to_string(id) + " \"" + pieces[id] + "\" twice, or empty");
    made.longest_ = std::max(made.longest_, text.size());
  }
  for (size_t i = 0; i < kSpecialTexts.size(); ++i) {
    const auto found = made.first_.find(kSpecialTexts[i]);
    if (found == made.first_.end())
      return Fail(ErrorCode::kModelUnsupported,
                  "its vocabulary is not BERT's: it has no " + std::string(kSpecialTexts[i]) + " token");
    made.specials_[i] = {kSpecialTexts[i], found->second};
  }
  return made;
}

const WordPiece::Special* WordPiece::SpecialAt(std::string_view text) const {
  for (const Special& special : specials_)
    if (text.starts_with(special.text)) return &special;
  return nullptr;
}

std::vector<int32_t> WordPiece::Encode(std::string_view text, size_t max_tokens) const {
  INFERSCALE_ASSERT(max_tokens >= 2);
  const size_t room = max_tokens - 1;  // [SEP] is added at the end
  std::vector<int32_t> ids = {specials_[kCls].id};
  for (size_t begin = 0; begin < text.size() && ids.size() < room;) {
    size_t end = text.find('[', begin);
    while (end != std::string_view::npos && SpecialAt(text.substr(end)) == nullptr) end = text.find('[', end + 1);
    EncodeSegment(text.substr(begin, end == std::string_view::npos ? end : end - begin), room, ids);
    if (end == std::string_view::npos) break;
    const Special& special = *SpecialAt(text.substr(end));
    ids.push_back(special.id);
    begin = end + special.text.size();
  }
  ids.resize(std::min(ids.size(), room));
  ids.push_back(specials_[kSep].id);
  return ids;
}

void WordPiece::EncodeSegment(std::string_view text, size_t max_tokens, std::vector<int32_t>& ids) const {
  const std::u32string normal = Normalize(text);
  const std::u32string_view all = normal;
  size_t word = 0;  // begin of the word being read
  for (size_t at = 0; at <= all.size() && ids.size() < max_tokens; ++at) {
    const bool is_punctuation = at < all.size() && unicode::IsPunctuation(all[at]);
    if (at < all.size() && !is_punctuation && !unicode::IsSpace(all[at])) continue;
    if (at > word) EncodeWord(all.substr(word, at - word), ids);
    if (is_punctuation) EncodeWord(all.substr(at, 1), ids);
    word = at + 1;
  }
}

void WordPiece::EncodeWord(std::u32string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  std::string bytes;
  std::array<size_t, kWordChars + 1> offsets{};  // of each character in bytes, and their end
  const size_t chars = word.size();
  bool known = chars <= kWordChars;
  for (size_t i = 0; known && i < chars; ++i) {
    offsets[i] = bytes.size();
    unicode::AppendUtf8(word[i], bytes);
  }
  if (known) offsets[chars] = bytes.size();
  // The longest piece first. Each round tries as many characters as the longest piece can have, never the whole word:
  // otherwise a text of hundred-letter words would cost fifty look-ups a letter.
  for (size_t begin = 0; known && begin < chars;) {
    const Pieces& pieces = begin == 0 ? first_ : next_;
    size_t end = std::min(chars, begin + longest_);
    auto found = pieces.end();
    for (; end > begin; --end) {
      const size_t size = offsets[end] - offsets[begin];
      if (size > longest_) continue;
      found = pieces.find(std::string_view(bytes).substr(offsets[begin], size));
      if (found != pieces.end()) break;
    }
    known = end > begin;
    if (known) ids.push_back(found->second);
    begin = end;
  }
  if (!known) {  // one [UNK] for the whole word
    ids.resize(before);
    ids.push_back(specials_[kUnk].id);
  }
}

}  // namespace inferscale
