#include "engine/llama/llama_model_file.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

#include "embed/gguf_check.h"
#include "embed/llama_log.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

std::string MetaString(const llama_model* model, const std::string& key) {
  std::vector<char> buffer(256);
  const int32_t n = llama_model_meta_val_str(model, key.c_str(), buffer.data(), buffer.size());
  if (n < 0) return "";
  if (static_cast<size_t>(n) >= buffer.size()) {
    buffer.resize(static_cast<size_t>(n) + 1);
    llama_model_meta_val_str(model, key.c_str(), buffer.data(), buffer.size());
  }
  return std::string(buffer.data(), static_cast<size_t>(n));
}

uint64_t MetaNumber(const llama_model* model, const std::string& key) {
  const std::string text = MetaString(model, key);
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Most of llama.cpp's graphs assert that all of a head is rotated, and abort the process when a context is made for a
// model that says otherwise. These do not (v0.5.0).
Status CheckPartialRotary(const LlamaModelFile& file) {
  static constexpr std::array<std::string_view, 10> kSupported = {"gemma3", "gemma2", "gemma", "gptneox", "stablelm",
                                                                  "phi2",   "phi3",   "glm4",  "chatglm", "glm4moe"};
  const auto number = [&](const char* key) { return MetaNumber(file.model.get(), file.architecture + "." + key); };
  const uint64_t rotated = number("rope.dimension_count"), heads = number("attention.head_count");
  uint64_t head_dim = number("attention.key_length");
  if (head_dim == 0 && heads != 0) head_dim = number("embedding_length") / heads;
  if (rotated == 0 || head_dim == 0 || rotated == head_dim) return {};
  if (std::find(kSupported.begin(), kSupported.end(), file.architecture) != kSupported.end()) return {};
  return Fail(ErrorCode::kModelUnsupported, file.path + " rotates " + std::to_string(rotated) + " of " +
                                                std::to_string(head_dim) +
                                                " dimensions, which llama.cpp does not run for " + file.architecture +
                                                ": the file is probably damaged");
}

}  // namespace

bool IsInjectableArchitecture(std::string_view architecture) {
  static constexpr std::array<std::string_view, 4> kAllowed = {"llama", "qwen2", "qwen3", "gemma3"};
  for (const std::string_view allowed : kAllowed)
    if (architecture == allowed) return true;
  return false;
}

Result<LlamaModelFile> LoadModelFile(const fs::path& path) {
  InitLlamaLog();
  TRY_ASSIGN(const GgufPtr gguf, OpenGgufFile(path));
  LlamaModelFile file;
  TRY_ASSIGN(file.fingerprint, GgufFingerprint(path, *gguf));
  llama_model_params params = llama_model_default_params();
  try {
    file.model.reset(llama_model_load_from_file(path.c_str(), params));
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kModelLoad, path.string() + ": llama.cpp: " + e.what());
  }
  const std::string shown = path.string();
  if (!file.model)
    return Fail(ErrorCode::kModelLoad,
                "llama.cpp cannot load " + shown + ": it is damaged or of an unknown architecture");
  const llama_model* model = file.model.get();
  file.path = shown;
  file.name = path.stem().string();
  file.architecture = MetaString(model, "general.architecture");
  file.chat_template = MetaString(model, "tokenizer.chat_template");
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model) ||
      MetaString(model, file.architecture + ".attention.causal") == "false")
    return Fail(ErrorCode::kModelUnsupported,
                shown + " (" + file.architecture + ") does not generate text: choose a language model");
  if (llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_NONE)
    return Fail(ErrorCode::kModelUnsupported, shown + " holds no tokenizer: convert it again with its tokenizer");
  TRY(CheckPartialRotary(file));
  return file;
}

}  // namespace inferscale
