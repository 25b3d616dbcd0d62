// A BERT sentence embedder (all-MiniLM-L6-v2) run by llama.cpp on the CPU, with our own tokenizer.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "embed/bert_file.h"
#include "embed/embedder.h"
#include "embed/wordpiece.h"

struct llama_context;
struct llama_model;

namespace inferscale {

class LlamaEmbedder final : public Embedder {
 public:
  // path: a GGUF file (tools/convert_minilm.py). threads: 0 for all cores. ReadBertFile's errors, kModelLoad.
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

  explicit LlamaEmbedder(WordPiece tokenizer);
  Status Run(std::span<const Input> inputs, float* vectors);

  // Constant after Load.
  WordPiece tokenizer_;
  uint32_t dim_ = 0;
  std::string name_;
  Hash128 key_;
  std::unique_ptr<llama_model, Free> model_;

  std::mutex mutex_;  // held while context_ and batch_ are used
  std::unique_ptr<llama_context, Free> context_;
  std::unique_ptr<Batch> batch_;
};

}  // namespace inferscale
