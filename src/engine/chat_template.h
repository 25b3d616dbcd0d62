// A model's chat template.
#pragma once

#include <span>
#include <string>

#include "base/error.h"

namespace inferscale {

struct ChatMessage {
  std::string role;  // "system", "user", "assistant"
  std::string content;
};

class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;

  // The rendered prompt, ending where the assistant's answer begins. Spells BOS if the template does. Thread-safe.
  // kModelUnsupported: the template raised an error (for example: it has no system role).
  virtual Result<std::string> Render(std::span<const ChatMessage> messages) const = 0;
};

}  // namespace inferscale
