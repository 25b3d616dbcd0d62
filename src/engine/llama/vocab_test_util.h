// Vocabularies for tests: of the real models, and a small SentencePiece one written by the test itself.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/llama/llama_handles.h"
#include "engine/llama/llama_tokenizer.h"

namespace inferscale {

struct TestModel {
  std::string_view name;
  std::string_view file;
  bool always;  // false: only when INFERSCALE_ALL_MODELS is set
};
inline constexpr TestModel kTestModels[] = {
    {"SmolLM2", "SmolLM2-135M-Instruct.Q4_1.gguf", true},
    {"Qwen25Coder", "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf", false},
    {"Gemma3", "gemma-3-270m-q4_k_m.gguf", false},
};

// A vocabulary without weights and its tokenizer.
struct TestVocab {
  LlamaModelPtr model;
  std::unique_ptr<LlamaTokenizer> tokenizer;
  std::string chat_template;  // the model's own, or ""
};

// "" if the model is to be tested, else the reason to skip it.
std::string SkipReason(const TestModel& model);

// Of $INFERSCALE_MODEL_DIR; loaded once per process. nullptr (and a failed test) if the file is missing.
const TestVocab* RealVocab(const TestModel& model);

// A vocabulary file in the test's temporary folder: SentencePiece with a dummy space before texts, in which plain
// merging gives "</s>" (control), "[INST]" and tab are user-defined, and "▁▁x" is a control token.
TestVocab SmallSentencePiece();

// Concatenated pieces.
std::string Spell(const Tokenizer& tokenizer, const Tokens& tokens);

// Ids of llama.cpp itself, without BOS.
Tokens NativeTokens(const TestVocab& vocab, std::string_view text, bool parse_special);

// A template of tests/data/templates.
std::string TemplateSource(std::string_view name);

}  // namespace inferscale
