// The golden files of tests/data/embed, made with the original model (tools/golden_minilm.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace inferscale::testing {

struct GoldenSentence {
  std::string script, text;
  size_t uncut = 0;  // tokens, without a limit
  std::vector<int32_t> ids;
  std::vector<float> vector;
};

std::vector<GoldenSentence> GoldenSentences();
std::vector<uint64_t> GoldenCodePointBlocks();

// $INFERSCALE_MODEL_DIR/all-MiniLM-L6-v2.f16.gguf. Empty: the variable is not set and the test is to be skipped.
std::filesystem::path MiniLmForTest();

}  // namespace inferscale::testing
