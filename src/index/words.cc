#include "index/words.h"

#include <unicode/ubrk.h>
#include <unicode/uchar.h>
#include <unicode/uloc.h>
#include <unicode/ustring.h>
#include <unicode/utf16.h>
#include <unicode/uversion.h>

#include <memory>
#include <unordered_map>

#include "base/limits.h"
#include "base/utf8.h"
#include "index/text_fold.h"

namespace inferscale {

namespace {

constexpr int kVersion = 1;  // raise when the same ICU would give other terms

struct CloseBreaker {
  void operator()(UBreakIterator* breaker) const { ubrk_close(breaker); }
};

// One for each thread: opening it reads rules, and a breaker holds the text that it is at. Null: ICU's data is missing.
UBreakIterator* WordBreaker() {
  thread_local const std::unique_ptr<UBreakIterator, CloseBreaker> breaker = [] {
    UErrorCode error = U_ZERO_ERROR;
    std::unique_ptr<UBreakIterator, CloseBreaker> made(ubrk_open(UBRK_WORD, "", nullptr, 0, &error));
    return U_SUCCESS(error) ? std::move(made) : nullptr;
  }();
  return breaker.get();
}

// What is between two word boundaries may be spaces and punctuation, and ICU gives emoji no class of their own.
bool IsWord(std::u16string_view piece, int32_t rule_status) {
  const bool may_be_emoji = rule_status < UBRK_WORD_NONE_LIMIT;
  for (size_t i = 0; i < piece.size();) {
    UChar32 c = 0;
    U16_NEXT(piece.data(), i, piece.size(), c);
    if (may_be_emoji ? u_hasBinaryProperty(c, UCHAR_EXTENDED_PICTOGRAPHIC) != 0 : u_isalnum(c) != 0) return true;
  }
  return false;
}

std::string ToTerm(std::u16string_view piece) {
  piece = piece.substr(0, limits::kTermBytes);  // no code unit has less than a byte
  std::string term(3 * piece.size(), '\0');
  int32_t size = 0;
  UErrorCode error = U_ZERO_ERROR;
  u_strToUTF8WithSub(term.data(), static_cast<int32_t>(term.size()), &size, piece.data(),
                     static_cast<int32_t>(piece.size()), 0xFFFD, nullptr, &error);  // a pair may be cut in two
  term.resize(static_cast<size_t>(size));
  if (term.size() > limits::kTermBytes) term.resize(FloorToCodePoint(term, limits::kTermBytes));
  return term;
}

// Calls take(piece) for each word of a folded text, until it returns false.
template <class Take>
Status ForEachWord(std::u16string_view text, const Take& take) {
  UBreakIterator* breaker = WordBreaker();
  UErrorCode error = U_ZERO_ERROR;
  if (breaker != nullptr) ubrk_setText(breaker, text.data(), static_cast<int32_t>(text.size()), &error);
  if (breaker == nullptr || U_FAILURE(error))
    return Fail(ErrorCode::kInternal, "ICU cannot split words: is its data file installed?");
  int32_t begin = ubrk_first(breaker);
  for (int32_t end = ubrk_next(breaker); end != UBRK_DONE; begin = end, end = ubrk_next(breaker)) {
    const auto piece = text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
    if (IsWord(piece, ubrk_getRuleStatus(breaker)) && !take(piece)) break;
  }
  ubrk_setText(breaker, u"", 0, &error);  // it keeps a pointer to the text
  return {};
}

Status CheckBytes(std::string_view text) {
  if (text.size() > limits::kQuestionBytes)
    return Fail(ErrorCode::kTooLarge,
                "the text is longer than the limit of " + std::to_string(limits::kQuestionBytes) + " bytes");
  return {};
}

}  // namespace

Result<SplitText> SplitWords(std::string_view text) {
  TRY(CheckBytes(text));
  SplitText split;
  std::unordered_map<std::string, size_t> places;
  bool is_full = false;
  const std::u16string folded = FoldToUtf16(text);
  TRY(ForEachWord(folded, [&](std::u16string_view piece) {
    const auto [place, is_new] = places.try_emplace(ToTerm(piece), split.terms.size());
    is_full = is_new && split.terms.size() == limits::kTermsPerFact;
    if (is_full) return false;
    if (is_new) {
      split.terms.push_back({place->first, 1});
    } else {
      ++split.terms[place->second].count;
    }
    ++split.words;
    return true;
  }));
  if (is_full)
    return Fail(ErrorCode::kTooLarge,
                "the text has more than " + std::to_string(limits::kTermsPerFact) + " different words");
  return split;
}

Result<std::vector<std::string>> QueryTerms(std::string_view question) {
  TRY(CheckBytes(question));
  std::vector<std::string> terms;
  std::unordered_map<std::string, size_t> places;
  const std::u16string folded = FoldToUtf16(question);
  TRY(ForEachWord(folded, [&](std::u16string_view piece) {
    const auto [place, is_new] = places.try_emplace(ToTerm(piece), terms.size());
    if (is_new) terms.push_back(place->first);
    return terms.size() < limits::kTermsPerQuery;
  }));
  return terms;
}

std::string WordSplitterVersion() {
  UVersionInfo icu;
  u_getVersion(icu);
  char text[U_MAX_VERSION_STRING_LENGTH];
  u_versionToString(icu, text);
  return std::to_string(kVersion) + " ICU " + text;
}

}  // namespace inferscale
