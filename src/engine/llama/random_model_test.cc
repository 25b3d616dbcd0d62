// The random models themselves: llama.cpp loads them, and their logits react to what later tests change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <llama.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <sstream>

#include "engine/llama/llama_handles.h"
#include "engine/llama/random_model_test_util.h"

namespace inferscale {
namespace {

using Logits = std::vector<std::vector<float>>;  // [tokens][vocabulary]

// Of this process: tests run in processes of their own, at the same time, and write models of the same name.
std::filesystem::path Folder() {
  struct Own {
    std::filesystem::path path =
        std::filesystem::path(testing::TempDir()) / ("random_model_test." + std::to_string(getpid()));
    Own() { std::filesystem::create_directories(path); }
    ~Own() { std::filesystem::remove_all(path); }
  };
  static const Own own;
  return own.path;
}

std::string FileBytes(const std::filesystem::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

LlamaModelPtr Load(const RandomModelSpec& spec) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const auto path = WriteRandomModel(spec, Folder());
  if (!path) {
    ADD_FAILURE() << path.error().message;
    return nullptr;
  }
  EXPECT_LT(std::filesystem::file_size(*path), 8u << 20);
  LlamaModelPtr model(llama_model_load_from_file(path->c_str(), llama_model_default_params()));
  EXPECT_NE(model, nullptr) << spec.name;
  std::filesystem::remove(*path);
  return model;
}

// Logits after each token. rope_freq_scale 0: the model's own.
Logits Decode(llama_model* model, const std::vector<llama_token>& tokens, llama_pos first = 0,
              float rope_freq_scale = 0) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = 512;
  params.n_threads = params.n_threads_batch = 1;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.rope_freq_scale = rope_freq_scale;
  const LlamaContextPtr context(llama_init_from_model(model, params));
  if (context == nullptr) return {};
  LlamaBatch batch(static_cast<int32_t>(tokens.size()));
  for (size_t i = 0; i < tokens.size(); ++i) batch.Add(tokens[i], first + static_cast<llama_pos>(i), true);
  if (llama_decode(context.get(), batch.get()) != 0) return {};
  const int32_t n = llama_vocab_n_tokens(llama_model_get_vocab(model));
  Logits logits;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const float* row = llama_get_logits_ith(context.get(), static_cast<int32_t>(i));
    logits.emplace_back(row, row + n);
  }
  return logits;
}

std::vector<llama_token> SomeTokens(size_t n) {
  std::vector<llama_token> tokens;
  for (size_t i = 0; i < n; ++i) tokens.push_back(static_cast<llama_token>(20 + (i * i * 7 + i * 31) % 400));
  return tokens;
}

double Cosine(const std::vector<float>& a, const std::vector<float>& b) {
  const auto dot = [](const auto& x, const auto& y) { return std::inner_product(x.begin(), x.end(), y.begin(), 0.0); };
  return dot(a, b) / std::sqrt(dot(a, a) * dot(b, b));
}

std::vector<RandomModelSpec> AllModels() {
  std::vector<RandomModelSpec> all = InjectableRandomModels();
  for (const RandomModelSpec& spec : TextModeRandomModels()) all.push_back(spec);
  return all;
}

class RandomModelTest : public testing::TestWithParam<RandomModelSpec> {};

TEST_P(RandomModelTest, LogitsAreFiniteAndTellTheContext) {
  const LlamaModelPtr model = Load(GetParam());
  ASSERT_NE(model, nullptr);
  std::vector<llama_token> tokens = SomeTokens(32);
  const Logits logits = Decode(model.get(), tokens);
  ASSERT_EQ(logits.size(), tokens.size());
  std::set<size_t> best;
  for (const std::vector<float>& row : logits) {
    for (const float value : row) ASSERT_TRUE(std::isfinite(value));
    best.insert(static_cast<size_t>(std::max_element(row.begin(), row.end()) - row.begin()));
  }
  EXPECT_GE(best.size(), 12u);   // of 32: no token wins everywhere
  EXPECT_GE(*best.begin(), 3u);  // and no control token ever
  // The last token's logits see which tokens came before it, and in which order.
  std::swap(tokens[20], tokens[28]);
  const Logits swapped = Decode(model.get(), tokens);
  EXPECT_GT(Cosine(logits[19], swapped[19]), 0.99999);
  EXPECT_LT(Cosine(logits[31], swapped[31]), 0.995);
  tokens[10] += 1;
  EXPECT_LT(Cosine(swapped[31], Decode(model.get(), tokens)[31]), 0.995);
}

INSTANTIATE_TEST_SUITE_P(All, RandomModelTest, testing::ValuesIn(AllModels()),
                         [](const auto& i) { return i.param.name; });

class RandomRopeTest : public testing::TestWithParam<RandomModelSpec> {};

TEST_P(RandomRopeTest, OnlyDistancesMatterAndTheyMatter) {
  const LlamaModelPtr model = Load(GetParam());
  ASSERT_NE(model, nullptr);
  const std::vector<llama_token> tokens = SomeTokens(32);
  const std::vector<float> last = Decode(model.get(), tokens).back();
  EXPECT_GT(Cosine(last, Decode(model.get(), tokens, 300).back()), 0.9999);
  // Angles a millionth of what they should be: keys as good as unrotated.
  EXPECT_LT(Cosine(last, Decode(model.get(), tokens, 0, 1e-6f).back()), 0.98);
}

INSTANTIATE_TEST_SUITE_P(All, RandomRopeTest, testing::ValuesIn(InjectableRandomModels()),
                         [](const auto& i) { return i.param.name; });

TEST(RandomModelOptions, EveryRopeOptionMovesTheLogits) {
  const std::vector<llama_token> tokens = SomeTokens(32);
  const auto last = [&](const RandomModelSpec& spec) {
    const LlamaModelPtr model = Load(spec);
    return model == nullptr ? std::vector<float>(1) : Decode(model.get(), tokens).back();
  };
  using enum RandomRopeScaling;
  for (const RandomRopeScaling scaling : {kLinear, kYarn, kLlama3})
    EXPECT_LT(Cosine(last({}), last({.rope_scaling = scaling})), 0.999) << static_cast<int>(scaling);
  EXPECT_LT(Cosine(last({}), last({.rope_base = 500})), 0.999);
  const RandomModelSpec gemma{.architecture = "gemma3", .layers = 4, .head_dim = 64};
  RandomModelSpec changed = gemma;
  changed.rotary_dims = 32;
  EXPECT_LT(Cosine(last(gemma), last(changed)), 0.999);
  changed = gemma;
  changed.rope_base_swa = 50;
  EXPECT_LT(Cosine(last(gemma), last(changed)), 0.999);
  changed = gemma;
  changed.sliding_window = 8;
  EXPECT_LT(Cosine(last(gemma), last(changed)), 0.999);
}

TEST(RandomModelOptions, TheFileDependsOnTheSpecAlone) {
  const auto bytes = [](const RandomModelSpec& spec) { return FileBytes(*WriteRandomModel(spec, Folder())); };
  EXPECT_EQ(bytes({}), bytes({}));
  EXPECT_NE(bytes({}), bytes({.seed = 2}));
}

TEST(RandomModelOptions, ImpossibleSpecsAreRefused) {
  for (const RandomModelSpec& spec :
       {RandomModelSpec{.kv_heads = 3}, RandomModelSpec{.rotary_dims = 34}, RandomModelSpec{.head_dim = 33},
        RandomModelSpec{.architecture = "qwen2", .head_dim = 48}, RandomModelSpec{.architecture = "gpt2"}}) {
    const auto written = WriteRandomModel(spec, Folder());
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, ErrorCode::kInvalidArgument);
  }
  const auto written = WriteRandomModel({}, Folder() / "no" / "such" / "folder");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kIo);
}

std::vector<std::string> Pieces(const llama_model* model, std::string_view text, bool special) {
  const llama_vocab* vocab = llama_model_get_vocab(model);
  std::vector<llama_token> tokens(text.size() + 8);
  const int32_t n = llama_tokenize(vocab, text.data(), static_cast<int32_t>(text.size()), tokens.data(),
                                   static_cast<int32_t>(tokens.size()), true, special);
  std::vector<std::string> pieces;
  for (int32_t i = 0; i < n; ++i) {
    char piece[64];
    const int32_t size = llama_token_to_piece(vocab, tokens[static_cast<size_t>(i)], piece, sizeof(piece), 0, true);
    pieces.emplace_back(piece, static_cast<size_t>(std::max(size, 0)));
  }
  return pieces;
}

TEST(RandomVocabTest, MergesWordsAndParsesControlTokens) {
  using testing::ElementsAre;
  const LlamaModelPtr bpe = Load({}), piece = Load({.vocab = {.kind = RandomVocab::kSentencePiece, .add_bos = true}});
  ASSERT_TRUE(bpe != nullptr && piece != nullptr);
  EXPECT_THAT(Pieces(bpe.get(), "x with the", true), ElementsAre("x", " with", " the"));
  EXPECT_THAT(Pieces(bpe.get(), "<|im_end|>\n", true), ElementsAre("<|im_end|>", "\n"));
  EXPECT_EQ(Pieces(bpe.get(), "<|im_end|>", false).size(), 10u);
  EXPECT_THAT(Pieces(bpe.get(), "é", true), ElementsAre("\xC3", "\xA9"));
  EXPECT_THAT(Pieces(piece.get(), "with the", true), ElementsAre("<s>", " with", " the"));  // the dummy space
  EXPECT_THAT(Pieces(piece.get(), "<|im_end|>", true), ElementsAre("<s>", "<|im_end|>"));
  EXPECT_EQ(Pieces(piece.get(), "é", true).size(), 4u);  // BOS, space, two bytes
}

TEST(RandomVocabTest, TemplateIsInTheFileOrNot) {
  using enum RandomTemplate;
  const auto source = [](RandomTemplate kind) {
    const LlamaModelPtr model = Load({.vocab = {.chat_template = kind, .add_bos = true}});
    const char* text = model == nullptr ? nullptr : llama_model_chat_template(model.get(), nullptr);
    return std::string(text == nullptr ? "" : text);
  };
  EXPECT_THAT(source(kChatMl), testing::StartsWith("{{ bos_token }}{% for"));
  EXPECT_THAT(source(kNoSystemRole), testing::HasSubstr("raise_exception"));
  EXPECT_EQ(source(kNone), "");
}

}  // namespace
}  // namespace inferscale
