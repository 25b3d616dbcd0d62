// The first half of the main path: from recalled facts to facts of a prompt, their KV records pinned.
#pragma once

#include <vector>

#include "base/error.h"
#include "memory/answer.h"
#include "memory/prompt_builder.h"

namespace inferscale {

// [ranked] The facts with their tokens (which stay theirs) and, but for the tail, their records. A fact whose record is
// missing or damaged goes in as text. Text mode looks up which records exist (both sides of a comparison have equal
// prompts) and loads none.
Result<std::vector<PromptFact>> PinRecords(const AnswerContext& context, const std::vector<RecalledFact>& ranked,
                                           const AnswerOptions& options);

}  // namespace inferscale
