// A model's own chat template, run by llama.cpp's Jinja interpreter. The one file that touches it.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/chat_template.h"

namespace inferscale {

// What a template sees: messages (role, content), bos_token, eos_token, add_generation_prompt = true,
// enable_thinking = false (an answer has a few dozen tokens, and thinking would use them up).
//
// strftime_now always gives 26 July 2024: with the real date, prompts of the same facts would differ from day to day
// and their recorded prefixes would be worthless. It is the date that Llama 3 templates print when there is no clock.
//
// Template text comes from a model file, so it is checked before it runs: size, nesting, range(). A template can still
// loop for long: a model's file is trusted that far.
class JinjaTemplate final : public ChatTemplate {
 public:
  // source: tokenizer.chat_template. kModelUnsupported: it cannot be parsed, or is beyond the limits.
  static Result<std::unique_ptr<JinjaTemplate>> Make(std::string_view source, std::string bos_token,
                                                     std::string eos_token);
  ~JinjaTemplate() override;

  // kTooLarge: more than limits::kMessages, or a prompt of more than limits::kRenderedBytes.
  Result<std::string> Render(std::span<const ChatMessage> messages) const override;

 private:
  struct Program;
  JinjaTemplate(std::unique_ptr<const Program> program, std::string bos_token, std::string eos_token);

  // Constant after Make.
  std::unique_ptr<const Program> program_;
  std::string bos_token_;
  std::string eos_token_;
};

}  // namespace inferscale
