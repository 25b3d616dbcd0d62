// The prompt plan: what an engine injects and what it computes. The one description both sides agree on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/types.h"

namespace inferscale {

enum class SpanKind : uint8_t {
  kPrefix = 0,  // exact cells from position 0: header, and a recorded system text
  kRecord = 1,  // a fact's KV record, rotated to its place
};

// A run of prompt tokens whose KV is injected. Spans follow each other without a gap from position 0.
struct PlanSpan {
  SpanKind kind = SpanKind::kRecord;
  RecordId record_id;            // kPrefix: digest of the prefix's tokens
  uint32_t content_version = 1;
  uint32_t n_tokens = 0;

  bool operator==(const PlanSpan&) const = default;
};

struct PromptPlan {
  uint32_t version = 1;
  ModelKey model_key;
  std::vector<PlanSpan> spans;
  Tokens prompt_tokens;          // the whole prompt: injected region, then the computed tokens
  std::string salt;              // isolation salt; empty for the embedded engine

  bool operator==(const PromptPlan&) const = default;
  uint32_t InjectedTokens() const;  // sum over spans
  uint32_t ComputedTokens() const { return static_cast<uint32_t>(prompt_tokens.size()) - InjectedTokens(); }
  uint32_t PrefixTokens() const;    // of the kPrefix span, or 0
};

// Checks the invariants: version, at most one prefix span and that first, no empty span, injected <= prompt - 1 (at
// least one token is computed: its logits give the first answer token). kInvalidArgument.
Status CheckPlan(const PromptPlan& plan);

// {"version":1,"model_key":"<hex>","spans":[{"kind":"prefix|record","record_id":"<hex>","content_version":1,
//  "n_tokens":27}],"prompt_tokens":[…],"salt":""}
std::string PlanToJson(const PromptPlan& plan);
Result<PromptPlan> PlanFromJson(std::string_view json);

}  // namespace inferscale
