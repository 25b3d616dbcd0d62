// A memory with an engine beside it: what commands that answer from a data folder, or encode it, work with.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "app/engine_flags.h"
#include "app/memory_flags.h"
#include "base/error.h"
#include "core/window.h"
#include "engine/engine.h"
#include "engine/prompt_layout.h"
#include "memory/answer.h"
#include "memory/fact_encoder.h"
#include "memory/memory_source.h"

namespace inferscale {

struct MemorySessionOptions {
  MemoryFlags memory;
  EngineFlags engine;
  std::string command;  // what a second process is told
  WindowSpec window;
  bool text_only = false;
  MemoryUse use = MemoryUse::kSearch;
};

class MemorySession {
 public:
  // The folder's lock first, then the models. The folder must be there, unless it is for kAdd.
  static Result<std::unique_ptr<MemorySession>> Open(MemorySessionOptions options);
  ~MemorySession();

  AnswerContext context() { return {*engine_, *layout_, *source_}; }
  Memory& memory() { return *opened_.memory; }
  Engine& engine() { return *engine_; }
  const PromptLayout& layout() const { return *layout_; }
  FactEncoder& encoder() { return *encoder_; }
  // Why nothing is injected although it was asked for, or "".
  const std::string& text_mode_reason() const { return text_mode_reason_; }

 private:
  MemorySession() = default;

  std::unique_ptr<Engine> engine_;  // outlives the memory, whose changes it hears of
  OpenedMemory opened_;
  std::optional<PromptLayout> layout_;
  std::optional<MemorySource> source_;
  std::optional<FactEncoder> encoder_;
  std::string text_mode_reason_;
};

}  // namespace inferscale
