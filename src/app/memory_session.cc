#include "app/memory_session.h"

#include "app/console.h"
#include "app/models.h"

namespace inferscale {

Result<std::unique_ptr<MemorySession>> MemorySession::Open(MemorySessionOptions options) {
  std::unique_ptr<MemorySession> session(new MemorySession);  // private constructor
  options.memory.embed_model = options.engine.embed_model.string();
  TRY_ASSIGN(session->opened_, OpenMemory(options.memory, options.command, options.use));
  TRY_ASSIGN(session->engine_,
             LoadEngine(options.engine, {.text_only = options.text_only, .quiet = options.memory.quiet}));
  Engine& engine = *session->engine_;
  Memory& memory = *session->opened_.memory;
  session->layout_.emplace(PromptLayout::Make(engine.tokenizer(), engine.chat_template()));
  if (!options.text_only) session->text_mode_reason_ = TextModeReason(engine, *session->layout_);
  if (!session->text_mode_reason_.empty())
    PrintWarning("facts go in as text, nothing is injected: " + session->text_mode_reason_);
  session->source_.emplace(memory, engine, options.memory.name_space);
  TRY_ASSIGN(session->encoder_, FactEncoder::Make(memory, engine, session->layout_->header(), options.window));
  // What a forgotten fact left in the engine's caches goes too. Nobody waits for it but the next request.
  memory.SetChangeListener([&engine](const Change& change) {
    if (!change.removed.empty()) (void)engine.Wipe();
  });
  return session;
}

MemorySession::~MemorySession() {
  if (opened_.memory) opened_.memory->SetChangeListener(nullptr);
}

}  // namespace inferscale
