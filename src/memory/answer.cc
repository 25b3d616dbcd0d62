#include "memory/answer.h"

#include "base/clock.h"
#include "memory/recall.h"
#include "memory/text_assembler.h"

namespace inferscale {

Result<Answer> AnswerQuestion(const AnswerContext& context, std::string_view question, const AnswerOptions& options,
                              const std::function<void(std::string_view)>& on_text) {
  Answer answer;
  Stopwatch watch;
  TRY_ASSIGN(answer.ranked, context.source.Recall(question, options.top_k));
  answer.retrieve_ms = watch.Millis();

  TRY_ASSIGN(const std::vector<PromptFact> facts, PinRecords(context, answer.ranked, options));
  answer.load_ms = watch.Millis() - answer.retrieve_ms;

  const EngineInfo& engine = context.engine.info();
  const PromptOptions prompt{options.tail, options.max_tokens, options.mode != AnswerMode::kText};
  TRY_ASSIGN(const Tokens after, context.layout.AfterFacts("", {}, question));
  TRY_ASSIGN(BuiltPrompt built, BuildPrompt(engine, context.layout.header(), facts, prompt, after));
  answer.used = std::move(built.used);
  answer.dropped = std::move(built.dropped);
  answer.prompt_tokens = built.plan.prompt_tokens.size();
  answer.injected_tokens = built.plan.InjectedTokens();
  answer.computed_tokens = built.plan.ComputedTokens();

  double before_engine_ms = watch.Millis();
  if (options.mode == AnswerMode::kFloor) before_engine_ms -= answer.load_ms;  // a prefix cache loads nothing
  TRY_ASSIGN(const std::unique_ptr<GenerateStream> stream,
             context.engine.Submit({.plan = std::move(built.plan),
                                    .records = std::move(built.records),
                                    .max_tokens = options.max_tokens,
                                    .prefill_region_first = options.mode == AnswerMode::kFloor}));
  TextAssembler text(context.engine.tokenizer(), on_text);
  for (;;) {
    TRY_ASSIGN(const std::optional<TokenId> token, stream->Next());
    if (!token) break;
    text.Add(*token);
  }
  text.Finish();

  answer.text = text.text();
  answer.finish = stream->finish_reason();
  const GenerateTimes times = stream->times();
  answer.compose_ms = times.compose_ms;
  answer.inject_ms = times.inject_ms;
  answer.prefill_ms = times.prefill_ms;
  answer.ttft_ms = before_engine_ms + times.first_token_ms;
  answer.total_ms = before_engine_ms + times.total_ms;
  return answer;
}

}  // namespace inferscale
