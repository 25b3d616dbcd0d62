#include "memory/prompt_builder.h"

#include <fmt/format.h>

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

Status CheckFits(const EngineInfo& engine, const Tokens& header, const Tokens& after, uint32_t max_tokens) {
  const size_t prompt = header.size() + after.size(), context = engine.context_tokens;
  if (prompt + max_tokens <= context) return {};
  const std::string whole =
      fmt::format("the question ({} tokens with its frame) and the instructions ({})", after.size(), header.size());
  if (prompt >= context)
    return Fail(ErrorCode::kPromptTooLong,
                fmt::format("{} do not fit the context of {} tokens: shorten the question or choose a larger --context",
                            whole, context));
  return Fail(
      ErrorCode::kPromptTooLong,
      fmt::format("{} leave {} of the context's {} tokens for the answer, which may be {} long: choose a smaller "
                  "--max-tokens or a larger --context",
                  whole, context - prompt, context, max_tokens));
}

Result<BuiltPrompt> BuildPrompt(const EngineInfo& engine, const Tokens& header, std::span<const PromptFact> ranked,
                                const PromptOptions& options, const Tokens& after) {
  TRY(CheckFits(engine, header, after, options.max_tokens));
  BuiltPrompt built;
  const size_t fixed = header.size() + after.size() + options.max_tokens;
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
