// Small models with random weights, written by tests as GGUF files: for architectures without a shipped model and for
// every variant of rope. A file takes 2 to 5 MB and some ten milliseconds, depends on its spec alone, and is no test
// data to keep: write it into the test's temporary folder.
//
// The weights are scaled so that such a model behaves like one: queries and keys have entries of standard
// deviation 1.4, so attention scores have one of 2 and about n / e^4 of n tokens are really attended to (9 of 500). A
// key rotated to a wrong position, or not at all, or another fact's, then moves the logits a lot. Logits have a
// standard deviation of 3. Control tokens have zero rows in the output matrix, so no answer ends by itself.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/llama/random_vocab_test_util.h"

namespace inferscale {

enum class RandomRopeScaling : uint8_t {
  kNone,
  kLinear,
  kYarn,
  kLlama3,  // a table of frequency factors from 1 to rope_factor ("rope_freqs.weight"); architecture llama only
};

struct RandomModelSpec {
  std::string name = "random";         // file name without ".gguf", and general.name
  std::string architecture = "llama";  // llama, qwen2, qwen3, gemma3, smollm3; text mode only: gpt2, mamba
  uint32_t layers = 3;
  uint32_t embedding = 128;
  uint32_t heads = 4;
  uint32_t kv_heads = 2;   // divides heads; gpt2: equals heads
  uint32_t head_dim = 32;  // qwen2, smollm3, gpt2: embedding / heads
  uint32_t feed_forward = 192;
  uint32_t context_tokens = 8192;  // trained for
  // 0: all of head_dim. Only gemma3 can have less: with it llama.cpp refuses llama, and aborts on qwen2, qwen3 and
  // smollm3 when a context is made.
  uint32_t rotary_dims = 0;
  float rope_base = 10000.0f;
  RandomRopeScaling rope_scaling = RandomRopeScaling::kNone;
  float rope_factor = 4.0f;              // of the scaling
  uint32_t rope_context_original = 256;  // kYarn
  // gemma3: every swa_pattern-th layer sees all, the others only the last sliding_window tokens, with their own base
  // and without scaling.
  uint32_t sliding_window = 256;
  uint32_t swa_pattern = 2;
  float rope_base_swa = 1000.0f;
  RandomVocabSpec vocab;
  uint64_t seed = 1;
};

// Writes folder/NAME.gguf. An architecture that is not listed above gets the tensors of llama under its own name, which
// llama.cpp cannot load. kInvalidArgument for dimensions that do not fit, kIo.
Result<std::filesystem::path> WriteRandomModel(const RandomModelSpec& spec, const std::filesystem::path& folder);

// One of each variant that the embedded engine injects into, with distinct names.
std::vector<RandomModelSpec> InjectableRandomModels();
// Ones that llama.cpp runs, but whose memory we cannot write: text mode.
std::vector<RandomModelSpec> TextModeRandomModels();

}  // namespace inferscale
