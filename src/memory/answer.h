// THE MAIN PATH: embed question -> search namespace -> pin KV records -> build prompt plan -> compose + inject ->
// generate -> release pins.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "engine/prompt_layout.h"
#include "memory/fact_source.h"

namespace inferscale {

enum class AnswerMode : uint8_t {
  kKv,     // inject what has a record
  kText,   // compute every token
  kFloor,  // measurement: the injected region lies computed in the engine's cache before the clock starts
};

struct AnswerOptions {
  AnswerMode mode = AnswerMode::kKv;
  size_t top_k = 50;
  size_t tail = 5;  // r
  uint32_t max_tokens = 64;
};

struct Answer {
  std::string text;
  FinishReason finish = FinishReason::kStop;
  std::vector<RecalledFact> ranked;  // best first
  std::vector<size_t> used;          // their ranks, from 0, in prompt order
  std::vector<size_t> dropped;       // ranks of those that did not fit, worst first
  size_t prompt_tokens = 0;
  size_t injected_tokens = 0;
  size_t computed_tokens = 0;
  size_t reused_tokens = 0;  // kept by the engine from the conversation's last turn; injected ones are among them
  double retrieve_ms = 0;    // embedding the question and searching
  double load_ms = 0;        // records from the cache into memory
  double compose_ms = 0;
  double inject_ms = 0;
  double prefill_ms = 0;  // computing the rest of the prompt
  double ttft_ms = 0;     // from the question's text to the first token
  double total_ms = 0;
};

// Everything the main path works with; all outlive it.
struct AnswerContext {
  Engine& engine;
  const PromptLayout& layout;
  FactSource& source;
};

// on_text (may be null) gets the answer in pieces of valid UTF-8 as it is made.
Result<Answer> AnswerQuestion(const AnswerContext& context, std::string_view question, const AnswerOptions& options,
                              const std::function<void(std::string_view)>& on_text);

}  // namespace inferscale
