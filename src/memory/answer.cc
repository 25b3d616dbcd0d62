#include "memory/answer.h"

#include "base/clock.h"
#include "memory/generation.h"
#include "memory/recall.h"

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

  double before_engine_ms = watch.Millis();
  if (options.mode == AnswerMode::kFloor) before_engine_ms -= answer.load_ms;  // a prefix cache loads nothing
  GenerationOptions generation;
  generation.max_tokens = options.max_tokens;
  generation.floor = options.mode == AnswerMode::kFloor;
  TRY(GenerateAnswer(context.engine, std::move(built), generation, before_engine_ms, on_text, answer));
  return answer;
}

}  // namespace inferscale
