// Real models for slow tests.
#pragma once

#include <filesystem>
#include <string>

namespace inferscale::testing {

// $INFERSCALE_MODEL_DIR/<file>. Empty: the test is to be skipped (the folder is not set, or `optional` and
// $INFERSCALE_ALL_MODELS is not). A folder that is set but lacks the file is a failure: the path is returned as it is.
std::filesystem::path ModelForTest(const std::string& file, bool optional);

// Writes the model with every weight as f32 (4 bytes each: 0.5 to 2.5 GB for the models below). False: it failed.
bool ExpandToF32(const std::filesystem::path& model, const std::filesystem::path& expanded);

inline constexpr const char* kSmolLm2 = "SmolLM2-135M-Instruct.Q4_1.gguf";
inline constexpr const char* kQwen25 = "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf";
inline constexpr const char* kGemma3 = "gemma-3-270m-q4_k_m.gguf";

}  // namespace inferscale::testing
