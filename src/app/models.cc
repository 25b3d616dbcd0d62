#include "app/models.h"

#include <filesystem>
#include <optional>

#include "app/console.h"
#include "embed/gguf_check.h"
#include "embed/llama_embedder.h"
#include "engine/llama/llama_engine.h"

namespace inferscale {

namespace {

// flag: that names another file.
tl::unexpected<Error> ModelError(Error error, const std::filesystem::path& path, const char* flag) {
  std::error_code ec;
  if (error.code == ErrorCode::kNotFound && !std::filesystem::exists(path, ec))
    error.message += std::string(": `make setup` fetches the default models; or name a GGUF file with ") + flag +
                     ", or the folder of the default ones with INFERSCALE_MODEL_DIR";
  const int range = static_cast<int>(error.code) / 100;
  if (range == 1 || range == 3) error.code = ErrorCode::kModelLoad;  // not the user's words, not our stored data
  return tl::unexpected<Error>(std::move(error));
}

}  // namespace

Result<std::unique_ptr<Engine>> LoadEngine(const EngineFlags& flags, const LoadModelOptions& options) {
  TRY(CheckEngineFlags(flags));
  LlamaEngineOptions engine;
  engine.model_path = flags.model;
  engine.threads = flags.threads;
  engine.context_tokens = flags.context_tokens;
  engine.text_only = options.text_only;
  if (options.kept_verdict) engine.cache_folder = flags.cache_folder;
  std::optional<ProgressBar> bar;
  if (!options.quiet)
    engine.on_self_test = [&bar](size_t done, size_t total) {
      if (!bar) {
        PrintNote(
            "checking that injection is right for this model, threads and context (takes a few seconds; the result is "
            "kept)");
        bar.emplace("Checking", "steps");
      }
      bar->Update(done, total);
    };
  Result<std::unique_ptr<LlamaEngine>> loaded = LlamaEngine::Load(engine);
  bar.reset();
  if (!loaded) return ModelError(std::move(loaded).error(), flags.model, "--model");
  return std::unique_ptr<Engine>(std::move(*loaded));
}

Result<std::unique_ptr<Embedder>> LoadEmbedder(const EngineFlags& flags) {
  Result<std::unique_ptr<LlamaEmbedder>> loaded = LlamaEmbedder::Load(flags.embed_model, flags.threads);
  if (!loaded) return ModelError(std::move(loaded).error(), flags.embed_model, "--embed-model");
  return std::unique_ptr<Embedder>(std::move(*loaded));
}

Status CheckModelFiles(const EngineFlags& flags) {
  TRY(CheckEngineFlags(flags));
  if (Status checked = CheckGgufFile(flags.model); !checked)
    return ModelError(std::move(checked).error(), flags.model, "--model");
  if (Status checked = CheckGgufFile(flags.embed_model); !checked)
    return ModelError(std::move(checked).error(), flags.embed_model, "--embed-model");
  return {};
}

std::string TextModeReason(const Engine& engine, const PromptLayout& layout) {
  if (!engine.info().can_inject) return engine.info().text_mode_reason;
  const Status checked = layout.Check();
  return checked ? "" : checked.error().message;
}

}  // namespace inferscale
