// Facts made up by templates and word lists, the same in every run.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "engine/tokenizer.h"

namespace inferscale {

// Dated and undated, with names, amounts, times, quotes, punctuation at the end or none, and a dozen scripts.
std::vector<std::string> SampleFacts(size_t count);

// Whether before and text, tokenised alone, give other ids than tokenised together.
bool BordersDiffer(const Tokenizer& tokenizer, std::string_view before, std::string_view text);

}  // namespace inferscale
