#include "app/engine_flags.h"

#include "app/number_flag.h"
#include "app/paths.h"
#include "base/limits.h"

namespace inferscale {

namespace {

void AddPath(CLI::App& command, const std::string& name, std::filesystem::path& path, const DefaultPath& fallback,
             const std::string& help) {
  path = fallback.path;
  command.add_option(name, path, help)->default_str(fallback.shown);
}

}  // namespace

void AddEngineFlags(CLI::App& command, EngineFlags& flags, bool has_memory) {
  AddPath(command, "--model", flags.model, DefaultModel(), "Language model, a GGUF file");
  AddPath(
      command, "--embed-model", flags.embed_model, DefaultEmbedModel(),
      std::string("Embedding model, a GGUF file (the default one is for English)") +
          (has_memory ? "; of a memory (--data-dir) also an OpenAI-compatible URL, http://HOST:PORT/v1#MODEL" : ""));
  AddPath(command, "--cache-dir", flags.cache_folder, DefaultKvFolder(),
          "Folder for KV records, vectors and self-test results; safe to delete");
  command.get_option("--model")->type_name("M.gguf");
  command.get_option("--embed-model")->type_name("E.gguf");
  command.get_option("--cache-dir")->type_name("DIR");
  AddNumber(command, "--threads", flags.threads, 0, limits::kThreads, "CPU threads; 0: all cores")
      ->capture_default_str();
  AddNumber(command, "--context", flags.context_tokens, 0, limits::kContextTokensMax,
            "Context in tokens; 0: 8192, or what the model was trained for if that is less")
      ->capture_default_str();
}

Status CheckEngineFlags(const EngineFlags& flags) {
  const char* missing = nullptr;
  if (flags.cache_folder.empty()) missing = "--cache-dir";
  if (flags.embed_model.empty()) missing = "--embed-model";
  if (flags.model.empty()) missing = "--model";
  if (missing == nullptr) return {};
  return Fail(ErrorCode::kInvalidArgument,
              std::string(missing) + " has no path, and no default where HOME is not set: give one, or set HOME");
}

}  // namespace inferscale
