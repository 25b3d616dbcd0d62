// An embedding model run by llama.cpp on the CPU. Uncased BERT models (all-MiniLM-L6-v2) have the tokenizer that they
// were trained with (wordpiece.h), all others llama.cpp's own; pooling and attention are what the file says.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "embed/embed_tokenizer.h"
#include "embed/embedder.h"

struct llama_context;
struct llama_model;

namespace inferscale {

class LlamaEmbedder final : public Embedder {
 public:
  // path: a GGUF file. threads: 0 for all cores. OpenGgufFile's and ReadBertFile's errors; kModelUnsupported: a model
  // that makes no embeddings; kModelLoad.
  static Result<std::unique_ptr<LlamaEmbedder>> Load(const std::filesystem::path& path, int threads);
  ~LlamaEmbedder() override;

  uint32_t dim() const override { return dim_; }
  const std::string& name() const override { return name_; }
  Hash128 key() const override { return key_; }
  size_t CountTokens(std::string_view text) const override;
  // Beside the contract: kTooLarge for a text over limits::kQuestionBytes.
  Result<std::vector<float>> Embed(std::span<const std::string_view> texts) override;

 private:
  struct Free {
    void operator()(llama_model* p) const;
    void operator()(llama_context* p) const;
  };
  struct Input {
    std::vector<int32_t> ids;
    size_t place = 0;  // in the call's texts
  };
  class Batch;

  LlamaEmbedder();
  Status LoadModel(const std::filesystem::path& path, int threads);
  Status CheckModel(const std::filesystem::path& path);
  Status Run(std::span<const Input> inputs, float* vectors);

  // Constant after Load.
  bool is_bert_ = false;  // checked by ReadBertFile
  uint32_t dim_ = 0;
  std::string name_;
  Hash128 key_;
  std::unique_ptr<llama_model, Free> model_;
  std::unique_ptr<EmbedTokenizer> tokenizer_;  // may look into model_

  std::mutex mutex_;  // held while context_ and batch_ are used
  std::unique_ptr<llama_context, Free> context_;
  std::unique_ptr<Batch> batch_;
};

}  // namespace inferscale
