// SplitLongFacts. Units (sentences, then words, then pieces of words) are counted once each, filled into parts by their
// sums, and each part is counted once more as it will stand: tokens of neighbours merge, so sums are only estimates.
#include <algorithm>
#include <array>
#include <unordered_set>

#include "base/assert.h"
#include "base/blanks.h"
#include "base/utf8.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

using CountTokens = std::function<size_t(std::string_view)>;

bool IsSpace(char c) { return kBlanks.find(c) != std::string_view::npos; }

// Sentence ends that need no space behind them: 。 ！ ？ ｡
bool IsWideStop(std::string_view code_point) {
  static constexpr std::array<std::string_view, 4> kStops = {"\u3002", "\uFF01", "\uFF1F", "\uFF61"};
  return std::find(kStops.begin(), kStops.end(), code_point) != kStops.end();
}

// Where the unit that starts at `begin` ends. White space before a unit belongs to it: tokenizers join " word".
size_t SentenceEnd(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size() && IsSpace(text[at])) ++at;
  while (at < text.size()) {
    const size_t bytes = CodePointBytes(text, at);
    const std::string_view code_point = text.substr(at, bytes);
    at += bytes;
    if (code_point == "\n" || IsWideStop(code_point)) return at;
    const bool is_stop = code_point == "." || code_point == "!" || code_point == "?" || code_point == "\u2026";
    if (is_stop && (at == text.size() || IsSpace(text[at]))) return at;
  }
  return at;
}

size_t WordEnd(std::string_view text, size_t begin) {
  size_t at = begin;
  while (at < text.size() && IsSpace(text[at])) ++at;
  while (at < text.size() && !IsSpace(text[at])) ++at;
  return at;
}

enum class Level { kSentence, kWord, kPiece };

class Splitter {
 public:
  Splitter(std::string_view text, const CountTokens& count, size_t limit) : text_(text), count_(count), limit_(limit) {}

  Result<std::vector<std::string>> Split() {
    TRY(AddUnits(0, text_.size(), Level::kSentence));
    TRY(Close());
    return std::move(parts_);
  }

 private:
  // The sentences or words of [begin, end).
  Status AddUnits(size_t begin, size_t end, Level level) {
    const std::string_view range = text_.substr(0, end);
    while (begin < end) {
      const size_t next = level == Level::kSentence ? SentenceEnd(range, begin) : WordEnd(range, begin);
      TRY(AddUnit(begin, next, level));
      begin = next;
    }
    return {};
  }

  // A unit goes into the open part or, when it is too long for any, its smaller units do.
  Status AddUnit(size_t begin, size_t end, Level level) {
    const std::string_view unit = text_.substr(begin, end - begin);
    const size_t tokens = count_(unit);
    if (!FitsAlone(unit, tokens)) {
      if (level == Level::kSentence) return AddUnits(begin, end, Level::kWord);
      if (CodePointBytes(unit, 0) < unit.size()) return AddHalves(begin, end);
      return Fail(ErrorCode::kTooLarge,
                  "one character has " + std::to_string(tokens) + " tokens, more than " + std::to_string(limit_));
    }
    if (sum_ + tokens > limit_) TRY(Close());
    if (ends_.empty()) begin_ = begin;
    ends_.push_back(end);
    sum_ += tokens;
    return {};
  }

  // A part loses the white space at its start, and "word" may have more tokens than " word": looked at when it matters.
  bool FitsAlone(std::string_view unit, size_t tokens) const {
    return tokens <= limit_ && (tokens <= limit_ / 2 || count_(Trimmed(unit)) <= limit_);
  }

  Status AddHalves(size_t begin, size_t end) {
    const std::string_view word = text_.substr(begin, end - begin);
    const size_t half = FloorToCodePoint(word, word.size() / 2);
    const size_t middle = begin + (half > 0 ? half : CodePointBytes(word, 0));
    TRY(AddUnit(begin, middle, Level::kPiece));
    return AddUnit(middle, end, Level::kPiece);
  }

  // Ends the open part. Where its units have more tokens together than one by one (rare), the last ones go into the
  // next.
  Status Close() {
    while (!ends_.empty()) {
      size_t units = ends_.size();
      while (units > 0 && count_(Trimmed(Units(units))) > limit_) units /= 2;
      if (units == 0) return Fail(ErrorCode::kInternal, "a text cannot be split: white space changes its token count");
      if (const std::string_view part = Trimmed(Units(units)); !part.empty()) parts_.emplace_back(part);
      begin_ = ends_[units - 1];
      ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(units));
    }
    sum_ = 0;
    return {};
  }

  std::string_view Units(size_t count) const { return text_.substr(begin_, ends_[count - 1] - begin_); }

  const std::string_view text_;
  const CountTokens& count_;
  const size_t limit_;
  std::vector<std::string> parts_;
  size_t begin_ = 0;          // of the open part
  std::vector<size_t> ends_;  // of its units
  size_t sum_ = 0;            // of its units' tokens
};

}  // namespace

Result<std::vector<Fact>> SplitLongFacts(std::vector<Fact> facts, const CountTokens& count_tokens, size_t limit) {
  INFERSCALE_ASSERT(limit > 0);
  std::vector<Fact> split;
  split.reserve(facts.size());
  bool any = false;
  for (Fact& fact : facts) {
    if (count_tokens(fact.text) <= limit) {
      split.push_back(std::move(fact));
      continue;
    }
    any = true;
    Result<std::vector<std::string>> parts = Splitter(fact.text, count_tokens, limit).Split();
    if (!parts) return Wrap(std::move(parts).error(), "fact " + fact.id);
    for (size_t i = 0; i < parts->size(); ++i) {
      Fact part = {.id = fact.id + "#" + std::to_string(i + 1),
                   .version = fact.version,
                   .text = std::move((*parts)[i]),
                   .date = fact.date,
                   .turn = fact.turn,
                   .part_of = fact.id};
      split.push_back(std::move(part));
    }
  }
  if (!any) return split;
  std::unordered_set<std::string_view> ids;
  for (const Fact& fact : split)
    if (!ids.insert(fact.id).second)
      return Fail(ErrorCode::kInvalidArgument,
                  "the id " + fact.id + " is also that of a part of a long fact: change it, without \"#\"");
  return split;
}

}  // namespace inferscale
