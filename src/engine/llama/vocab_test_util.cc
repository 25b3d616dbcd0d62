#include "engine/llama/vocab_test_util.h"

#include <gguf.h>
#include <gtest/gtest.h>
#include <llama.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "base/file.h"

namespace inferscale {

namespace {

void KeepQuiet(ggml_log_level, const char*, void*) {}

TestVocab LoadVocab(const std::string& path) {
  llama_log_set(KeepQuiet, nullptr);
  llama_model_params params = llama_model_default_params();
  params.vocab_only = true;
  TestVocab vocab;
  vocab.model.reset(llama_model_load_from_file(path.c_str(), params));
  if (vocab.model == nullptr) {
    ADD_FAILURE() << "cannot load the vocabulary of " << path;
    return vocab;
  }
  auto tokenizer = LlamaTokenizer::Make(vocab.model.get());
  if (!tokenizer) {
    ADD_FAILURE() << tokenizer.error().message;
    return vocab;
  }
  vocab.tokenizer = std::move(*tokenizer);
  const char* chat_template = llama_model_chat_template(vocab.model.get(), nullptr);
  vocab.chat_template = chat_template == nullptr ? "" : chat_template;
  return vocab;
}

}  // namespace

std::string SkipReason(const TestModel& model) {
  if (std::getenv("INFERSCALE_MODEL_DIR") == nullptr) return "INFERSCALE_MODEL_DIR is not set";
  if (!model.always && std::getenv("INFERSCALE_ALL_MODELS") == nullptr) return "INFERSCALE_ALL_MODELS is not set";
  return "";
}

const TestVocab* RealVocab(const TestModel& model) {
  static std::map<std::string_view, TestVocab> loaded;
  const auto [entry, is_new] = loaded.try_emplace(model.name);
  const std::string folder = std::getenv("INFERSCALE_MODEL_DIR");
  if (is_new) entry->second = LoadVocab(folder + "/" + std::string(model.file));
  return entry->second.tokenizer == nullptr ? nullptr : &entry->second;
}

TestVocab SmallSentencePiece() {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<int32_t> types;
  const auto add = [&](const std::string& text, llama_token_type type, float score = 0) {
    texts.push_back(text);
    types.push_back(type);
    scores.push_back(score);
  };
  add("<unk>", LLAMA_TOKEN_TYPE_UNKNOWN);
  add("<s>", LLAMA_TOKEN_TYPE_CONTROL);
  add("</s>", LLAMA_TOKEN_TYPE_CONTROL);
  for (int byte = 0; byte < 256; ++byte) {
    char name[8];
    snprintf(name, sizeof(name), "<0x%02X>", byte);
    add(name, LLAMA_TOKEN_TYPE_BYTE);
  }
  const std::string space = "\xE2\x96\x81";
  add("[INST]", LLAMA_TOKEN_TYPE_USER_DEFINED);
  add("[/INST]", LLAMA_TOKEN_TYPE_USER_DEFINED);
  add("\t", LLAMA_TOKEN_TYPE_USER_DEFINED);
  add("haha", LLAMA_TOKEN_TYPE_USER_DEFINED);
  add(space + space + "x", LLAMA_TOKEN_TYPE_CONTROL, -1);
  add(space + "hello", LLAMA_TOKEN_TYPE_NORMAL, -1);
  for (const std::string piece : {"hello", "hell", "he", "ll", "</", "s>", "[I", "ha", "wo"}) {
    add(piece, LLAMA_TOKEN_TYPE_NORMAL, -static_cast<float>(20 - piece.size()));
  }
  add(space, LLAMA_TOKEN_TYPE_NORMAL, -100);
  add(space + space, LLAMA_TOKEN_TYPE_NORMAL, -30);
  for (char c = '!'; c <= '~'; ++c) add(std::string(1, c), LLAMA_TOKEN_TYPE_NORMAL, -100);

  gguf_context* file = gguf_init_empty();
  gguf_set_val_str(file, "general.architecture", "llama");
  gguf_set_val_str(file, "tokenizer.ggml.model", "llama");
  std::vector<const char*> names;
  for (const std::string& text : texts) names.push_back(text.c_str());
  gguf_set_arr_str(file, "tokenizer.ggml.tokens", names.data(), names.size());
  gguf_set_arr_data(file, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
  gguf_set_arr_data(file, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  // Tests run in processes of their own, at the same time.
  const std::string path = testing::TempDir() + "small_vocab_" + std::to_string(getpid()) + ".gguf";
  EXPECT_TRUE(gguf_write_to_file(file, path.c_str(), true));
  gguf_free(file);
  TestVocab vocab = LoadVocab(path);
  std::remove(path.c_str());
  return vocab;
}

std::string Spell(const Tokenizer& tokenizer, const Tokens& tokens) {
  std::string text;
  for (const TokenId token : tokens) text += tokenizer.Piece(token);
  return text;
}

Tokens NativeTokens(const TestVocab& vocab, std::string_view text, bool parse_special) {
  Tokens ids(text.size() + 16);
  const int32_t count =
      llama_tokenize(llama_model_get_vocab(vocab.model.get()), text.data(), static_cast<int32_t>(text.size()),
                     ids.data(), static_cast<int32_t>(ids.size()), false, parse_special);
  EXPECT_GE(count, 0);
  ids.resize(static_cast<size_t>(std::max(count, 0)));
  return ids;
}

std::string TemplateSource(std::string_view name) {
  auto source = ReadFile(std::string(INFERSCALE_TEST_DATA) + "/templates/" + std::string(name), 1 << 20);
  if (!source) {
    ADD_FAILURE() << source.error().message;
    return "";
  }
  return *source;
}

}  // namespace inferscale
