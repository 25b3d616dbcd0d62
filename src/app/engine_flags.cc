#include "app/engine_flags.h"

#include "app/paths.h"
#include "base/limits.h"

namespace inferscale {

void AddEngineFlags(CLI::App& command, EngineFlags& flags) {
  flags.model = DefaultModel();
  flags.embed_model = DefaultEmbedModel();
  flags.cache_folder = DefaultKvFolder();
  command.add_option("--model", flags.model, "Language model, a GGUF file")->type_name("M.gguf")->capture_default_str();
  command
      .add_option("--embed-model", flags.embed_model, "Embedding model, a GGUF file (the default one is for English)")
      ->type_name("E.gguf")
      ->capture_default_str();
  command
      .add_option("--cache-dir", flags.cache_folder,
                  "Folder for KV records, vectors and self-test results; safe to delete")
      ->type_name("DIR")
      ->capture_default_str();
  command.add_option("--threads", flags.threads, "CPU threads; 0: all cores")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command
      .add_option("--context", flags.context_tokens, "Context in tokens; 0: 8192, or what the model was trained for")
      ->check(CLI::Range(uint32_t{0}, static_cast<uint32_t>(limits::kContextTokensMax)))
      ->capture_default_str();
}

}  // namespace inferscale
