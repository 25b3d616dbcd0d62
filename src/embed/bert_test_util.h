// Small embedding models with random weights, as GGUF files, whole or with something wrong.
#pragma once

#include <gguf.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace inferscale::testing {

// Pieces of a small vocabulary in the original's form: special tokens, letters, some longer ones.
std::vector<std::string> SmallVocabulary();

struct SmallBert {
  std::vector<std::string> pieces = SmallVocabulary();
  std::string without_tensor;  // left out
  std::string f16_tensor;      // stored as f16 instead of f32
  float weight = 0.1f;         // random ones are within this and its negative
  std::function<void(gguf_context*)> change_keys = [](gguf_context*) {};
};

// Instead of WordPiece, as many pieces of SentencePiece's unigram model (GGUF's "t5"): <s> and </s> around each text,
// "▁the", "▁cat", and letters.
void SetUnigramVocabulary(gguf_context* gguf);

void WriteSmallBert(const SmallBert& bert, const std::filesystem::path& path);

// A causal decoder (llama) with that vocabulary.
struct SmallDecoder {
  std::optional<uint32_t> pooling;  // llama.h's types; none: a language model
};

void WriteSmallDecoder(const SmallDecoder& decoder, const std::filesystem::path& path);

}  // namespace inferscale::testing
