#include "engine/llama/llama_model_file.h"

#include <fcntl.h>
#include <gguf.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "base/file.h"
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

struct GgufFree {
  void operator()(gguf_context* p) const { gguf_free(p); }
};

// Header bytes (hyperparameters, tokenizer, tensor names and types) and three samples of 4 KiB from every tensor:
// a changed weight file differs in nearly every block, so samples tell files apart at a thousandth of the reading.
Result<Hash128> Fingerprint(const fs::path& path) {
  constexpr size_t kSampleBytes = 4096;
  const std::unique_ptr<gguf_context, GgufFree> gguf(
      gguf_init_from_file(path.c_str(), {.no_alloc = true, .ctx = nullptr}));
  if (!gguf) return Fail(ErrorCode::kCorrupt, path.string() + " is not a readable GGUF file");
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return tl::unexpected<Error>(ErrnoError(errno, "open", path));
  Hasher hasher;
  std::vector<char> buffer(1 << 20);
  bool ok = true;
  const auto hash_range = [&](size_t offset, size_t size) {
    while (ok && size > 0) {
      const ssize_t n = ::pread(fd, buffer.data(), std::min(size, buffer.size()), static_cast<off_t>(offset));
      ok = n > 0;
      if (!ok) return;
      hasher.Raw(buffer.data(), static_cast<size_t>(n));
      offset += static_cast<size_t>(n);
      size -= static_cast<size_t>(n);
    }
  };
  const size_t data = gguf_get_data_offset(gguf.get());
  hash_range(0, data);
  for (int64_t i = 0; i < gguf_get_n_tensors(gguf.get()); ++i) {
    const size_t begin = data + gguf_get_tensor_offset(gguf.get(), i), size = gguf_get_tensor_size(gguf.get(), i);
    const size_t sample = std::min(size, kSampleBytes);
    for (const size_t at : {size_t{0}, (size - sample) / 2, size - sample}) hash_range(begin + at, sample);
  }
  ::close(fd);
  if (!ok) return Fail(ErrorCode::kCorrupt, path.string() + " ends before its last tensor: download it again");
  return hasher.Finish();
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
  TRY(CheckGgufFile(path));
  LlamaModelFile file;
  TRY_ASSIGN(file.fingerprint, Fingerprint(path));
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
  file.name = MetaString(model, "general.name");
  if (file.name.empty()) file.name = path.filename().string();
  file.architecture = MetaString(model, "general.architecture");
  file.chat_template = MetaString(model, "tokenizer.chat_template");
  if (llama_model_has_encoder(model) || !llama_model_has_decoder(model) ||
      MetaString(model, file.architecture + ".attention.causal") == "false")
    return Fail(ErrorCode::kModelUnsupported,
                shown + " (" + file.architecture + ") does not generate text: choose a language model");
  if (llama_vocab_type(llama_model_get_vocab(model)) == LLAMA_VOCAB_TYPE_NONE)
    return Fail(ErrorCode::kModelUnsupported, shown + " holds no tokenizer: convert it again with its tokenizer");
  return file;
}

}  // namespace inferscale
