#include "memory/prompt_builder.h"

#include <algorithm>

#include "base/hash.h"

namespace inferscale {

namespace {

// How many of the best facts fit.
size_t CountFitting(std::span<const PromptFact> ranked, size_t room) {
  size_t n = 0, tokens = 0;
  while (n < ranked.size() && tokens + ranked[n].tokens.size() <= room) tokens += ranked[n++].tokens.size();
  return n;
}

}  // namespace

Result<BuiltPrompt> BuildPrompt(const EngineInfo& engine, const Tokens& header, std::span<const PromptFact> ranked,
                                const PromptOptions& options, const Tokens& after) {
  const size_t fixed = header.size() + after.size() + options.max_tokens;
  if (fixed > engine.context_tokens)
    return Fail(ErrorCode::kPromptTooLong,
                "the question (" + std::to_string(after.size()) + " tokens with its frame), the instructions (" +
                    std::to_string(header.size()) + ") and the answer (up to " + std::to_string(options.max_tokens) +
                    ") do not fit the context of " + std::to_string(engine.context_tokens) +
                    " tokens: shorten the question or choose a larger --context");
  BuiltPrompt built;
  const size_t fitting = CountFitting(ranked, engine.context_tokens - fixed);
  for (size_t i = ranked.size(); i > fitting; --i) built.dropped.push_back(ranked[i - 1].fact);

  PromptPlan& plan = built.plan;
  plan.model_key = engine.model_key;
  const auto append = [&](std::span<const TokenId> tokens) {
    plan.prompt_tokens.insert(plan.prompt_tokens.end(), tokens.begin(), tokens.end());
  };
  append(header);
  const bool inject = options.inject && engine.can_inject;
  if (inject && !header.empty())
    plan.spans.push_back({SpanKind::kPrefix, Hasher().Ids(header).Finish(), 1, static_cast<uint32_t>(header.size())});
  const auto is_injected = [&](size_t rank) {
    return engine.can_inject && rank >= options.tail && ranked[rank].has_record;
  };
  for (const bool injected : {true, false}) {  // best last, and what is computed behind what is injected
    for (size_t rank = fitting; rank-- > 0;) {
      if (is_injected(rank) != injected) continue;
      const PromptFact& fact = ranked[rank];
      append(fact.tokens);
      built.used.push_back(fact.fact);
      if (fact.record == nullptr || !injected) continue;
      plan.spans.push_back({SpanKind::kRecord, fact.record->key.Id(), fact.record->key.content_version,
                            static_cast<uint32_t>(fact.tokens.size())});
      built.records.push_back(fact.record);
    }
  }
  append(after);
  return built;
}

}  // namespace inferscale
