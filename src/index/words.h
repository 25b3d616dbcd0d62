// Text to the terms of keyword search, by ICU: word boundaries of Unicode's annex 29, dictionaries for Chinese,
// Japanese, Thai, Lao, Khmer and Burmese; folded (text_fold.h). A number is one term ("84.2", "3,000"), so is an
// identifier ("max_size"), and each emoji. No stemming and no stop words: facts may be in any language.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"

namespace inferscale {

struct SplitText {
  std::vector<TermCount> terms;  // distinct, in order of first appearance; each at most limits::kTermBytes
  uint32_t words = 0;            // all of them, repeated ones too: the text's length for BM25
};

// Any bytes are taken: ill-formed UTF-8 divides words. A word over limits::kTermBytes is cut there, at a character.
// kTooLarge: a text over limits::kQuestionBytes, or with more than limits::kTermsPerFact different words.
// Thread-safe.
Result<SplitText> SplitWords(std::string_view text);

// The distinct terms of a question. Beside SplitWords' errors none: beyond limits::kTermsPerQuery the first ones are
// kept, since a question of a thousand different words says what it is about before its end.
Result<std::vector<std::string>> QueryTerms(std::string_view question);

// What postings were split by: our version and ICU's, whose tables and dictionaries change with it. Stored beside the
// postings; another value means that they are to be made anew.
std::string WordSplitterVersion();

}  // namespace inferscale
