// The second half of the main path: a built prompt becomes an answer.
#pragma once

#include <functional>
#include <string_view>

#include "base/error.h"
#include "memory/answer.h"
#include "memory/prompt_builder.h"

namespace inferscale {

struct GenerationOptions {
  uint32_t max_tokens = 64;
  bool floor = false;    // AnswerMode::kFloor
  Hash128 conversation;  // GenerateRequest's
  // Called with the stream as soon as it is there, and with null before it goes: for cancelling from another thread.
  std::function<void(GenerateStream*)> on_stream;
};

// Adds text, tokens and times to `answer`; before_ms: from the question's text until now.
Status GenerateAnswer(Engine& engine, BuiltPrompt prompt, const GenerationOptions& options, double before_ms,
                      const std::function<void(std::string_view)>& on_text, Answer& answer);

}  // namespace inferscale
