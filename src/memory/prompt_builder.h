// From ranked facts to a prompt plan: order, budget, and what is injected or computed.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "core/prompt_plan.h"
#include "engine/engine.h"
#include "engine/prompt_layout.h"

namespace inferscale {

// A fact as it enters a prompt.
struct PromptFact {
  size_t fact = 0;  // the caller's index
  std::span<const TokenId> tokens;
  bool has_record = false;  // usable KV exists: injected unless it is one of the tail
  RecordHandle record;      // that record; null in text mode, which loads none
};

struct BuiltPrompt {
  PromptPlan plan;
  std::vector<RecordHandle> records;  // one per record span; empty in text mode
  std::vector<size_t> used;           // caller's indices, in prompt order
  std::vector<size_t> dropped;        // worst ranked first
};

struct PromptOptions {
  size_t tail = 0;          // the r best ones are computed, not injected
  uint32_t max_tokens = 1;  // room kept for the answer
  bool inject = true;       // false: the same tokens, nothing injected: text mode, and the other side of comparisons
};

// kPromptTooLong, with what to change: header, the question behind it and an answer of max_tokens do not fit the
// context.
Status CheckFits(const EngineInfo& engine, const Tokens& header, const Tokens& after, uint32_t max_tokens);

// ranked: best first. after: the tokens behind the facts. Facts that do not fit context_tokens - max_tokens are
// dropped, worst first; the header, the question and the answer never. kPromptTooLong when even those do not fit.
Result<BuiltPrompt> BuildPrompt(const EngineInfo& engine, const Tokens& header, std::span<const PromptFact> ranked,
                                const PromptOptions& options, const Tokens& after);

}  // namespace inferscale
