// Small BERT embedders with random weights, as GGUF files, whole or with something wrong.
#pragma once

#include <gguf.h>

#include <filesystem>
#include <functional>
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

void WriteSmallBert(const SmallBert& bert, const std::filesystem::path& path);

}  // namespace inferscale::testing
