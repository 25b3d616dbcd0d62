#include "memory/generation.h"

#include <algorithm>

#include "memory/text_assembler.h"

namespace inferscale {

Status GenerateAnswer(Engine& engine, BuiltPrompt prompt, const GenerationOptions& options, double before_ms,
                      const std::function<void(std::string_view)>& on_text, Answer& answer) {
  answer.used = std::move(prompt.used);
  answer.dropped = std::move(prompt.dropped);
  answer.prompt_tokens = prompt.plan.prompt_tokens.size();
  answer.injected_tokens = prompt.plan.InjectedTokens();
  answer.computed_tokens = prompt.plan.ComputedTokens();
  TRY_ASSIGN(const std::unique_ptr<GenerateStream> stream, engine.Submit({.plan = std::move(prompt.plan),
                                                                          .records = std::move(prompt.records),
                                                                          .max_tokens = options.max_tokens,
                                                                          .prefill_region_first = options.floor,
                                                                          .conversation = options.conversation}));
  if (options.on_stream) options.on_stream(stream.get());
  TextAssembler text(engine.tokenizer(), on_text);
  Status status;
  for (;;) {
    const auto token = stream->Next();
    if (!token) status = tl::unexpected<Error>(token.error());
    if (!token || !*token) break;
    text.Add(**token);
  }
  if (options.on_stream) options.on_stream(nullptr);
  TRY(status);
  text.Finish();

  answer.text = text.text();
  answer.finish = stream->finish_reason();
  const GenerateTimes times = stream->times();
  if (times.reused_tokens > 0) {
    answer.reused_tokens = times.reused_tokens;
    answer.injected_tokens = 0;
    answer.computed_tokens = answer.prompt_tokens - times.reused_tokens;
  }
  answer.compose_ms = times.compose_ms;
  answer.inject_ms = times.inject_ms;
  answer.prefill_ms = times.prefill_ms;
  answer.ttft_ms = before_ms + times.first_token_ms;
  answer.total_ms = before_ms + times.total_ms;
  return {};
}

}  // namespace inferscale
