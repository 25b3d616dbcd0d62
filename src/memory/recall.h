// The first half of the main path: the best facts for a question, and their KV records.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "index/exact_index.h"
#include "memory/answer.h"
#include "memory/prompt_builder.h"

namespace inferscale {

// Embeds the question and searches: best first, at most top_k.
Result<std::vector<SearchHit>> Recall(const AnswerContext& context, std::string_view question, size_t top_k);

// The ranked facts with their tokens and, but for the tail, their records: pinned as long as the handles live. A fact
// whose record is missing or damaged goes in as text. Text mode looks up which records exist (both sides of a
// comparison have equal prompts) and loads none.
Result<std::vector<PromptFact>> PinRecords(const AnswerContext& context, const std::vector<SearchHit>& hits,
                                           const AnswerOptions& options);

}  // namespace inferscale
