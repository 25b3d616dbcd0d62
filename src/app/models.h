// The two models that a command works with, loaded with words for people: what is missing, what takes long, and one
// exit status for every model that cannot be used.
#pragma once

#include <memory>
#include <string>

#include "app/engine_flags.h"
#include "base/error.h"
#include "embed/embedder.h"
#include "engine/engine.h"
#include "engine/prompt_layout.h"

namespace inferscale {

struct LoadModelOptions {
  bool text_only = false;    // no probe, no self-test, nothing is injected
  bool kept_verdict = true;  // a self-test of an earlier start counts
  bool quiet = false;        // no word that a self-test runs
};

// Whatever is wrong with a model's file is kModelLoad or kModelUnsupported (status 5), but for the machine's own faults
// (rights, disk: 3). A missing file's error says where models come from.
Result<std::unique_ptr<Engine>> LoadEngine(const EngineFlags& flags, const LoadModelOptions& options);
Result<std::unique_ptr<Embedder>> LoadEmbedder(const EngineFlags& flags);
// Whether both files look like models, at a fraction of loading them.
Status CheckModelFiles(const EngineFlags& flags);

// Why facts go in as text: the engine's reason, or the layout's check; "" when they are injected.
std::string TextModeReason(const Engine& engine, const PromptLayout& layout);

}  // namespace inferscale
