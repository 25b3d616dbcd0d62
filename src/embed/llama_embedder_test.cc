// Embedding models that are no uncased BERT, as small files with random weights: a SentencePiece vocabulary before an
// encoder (as bge-m3 has), and a causal decoder.
#include "embed/llama_embedder.h"

#include <gguf.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <numeric>

#include "base/limits.h"
#include "embed/bert_test_util.h"
#include "embed/embed_tokenizer.h"

namespace inferscale {
namespace {

using testing::SmallBert;
using testing::SmallDecoder;

class EmbeddingModels : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / "embedding_models" /
              ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path Encoder(uint32_t pooling = 1) {
    SmallBert bert;
    bert.weight = 0.5f;
    bert.change_keys = [pooling](gguf_context* gguf) {
      testing::SetUnigramVocabulary(gguf);
      gguf_set_val_u32(gguf, "bert.pooling_type", pooling);
    };
    const auto path = folder_ / ("encoder" + std::to_string(pooling) + ".gguf");
    testing::WriteSmallBert(bert, path);
    return path;
  }
  std::filesystem::path Decoder(std::optional<uint32_t> pooling) {
    const auto path = folder_ / ("decoder" + (pooling ? std::to_string(*pooling) : "") + ".gguf");
    testing::WriteSmallDecoder({pooling}, path);
    return path;
  }
  static std::unique_ptr<LlamaEmbedder> Load(const std::filesystem::path& path) {
    auto loaded = LlamaEmbedder::Load(path, 1);
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
    return loaded ? std::move(*loaded) : nullptr;
  }

  std::filesystem::path folder_;
};

const std::vector<std::string_view> kTexts = {
    "the cat", "the cat sat on the mat", "", "cat the", "a", "mat the on sat cat the", "x y z x y z x y z"};

std::vector<float> EmbedAll(Embedder& embedder, std::span<const std::string_view> texts) {
  auto vectors = embedder.Embed(texts);
  EXPECT_TRUE(vectors) << (vectors ? "" : vectors.error().message);
  return vectors.value_or(std::vector<float>(texts.size() * embedder.dim()));
}

float Dot(std::span<const float> a, std::span<const float> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0f);
}

float SquaredDistance(std::span<const float> a, std::span<const float> b) {
  float sum = 0.0f;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}

// Unit vectors, the same alone as in a batch, different for different texts.
void ExpectSoundVectors(Embedder& embedder) {
  const size_t dim = embedder.dim();
  ASSERT_EQ(dim, 32u);
  const std::vector<float> all = EmbedAll(embedder, kTexts);
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const std::span<const float> vector(all.data() + i * dim, dim);
    EXPECT_NEAR(Dot(vector, vector), 1.0f, 1e-5f);
    const std::vector<float> alone = EmbedAll(embedder, {&kTexts[i], 1});
    EXPECT_LT(SquaredDistance(vector, alone), 1e-8f) << kTexts[i];
    // Random weights make all texts look alike, but not that much.
    for (size_t j = 0; j < i; ++j)
      EXPECT_GT(SquaredDistance(vector, {all.data() + j * dim, dim}), 1e-6f) << i << ", " << j;
  }
  EXPECT_EQ(EmbedAll(embedder, kTexts), all);  // nothing was left behind by the calls before
}

TEST_F(EmbeddingModels, EncoderWithUnigramVocabulary) {
  for (const uint32_t pooling : {1u, 2u}) {
    const auto embedder = Load(Encoder(pooling));
    ASSERT_NE(embedder, nullptr);
    EXPECT_EQ(embedder->name(), "small");
    ExpectSoundVectors(*embedder);
    EXPECT_EQ(embedder->CountTokens(""), 2u);                                       // <s> </s>
    EXPECT_EQ(embedder->CountTokens("the cat"), 4u);                                // <s> ▁the ▁cat </s>
    EXPECT_EQ(embedder->CountTokens("</s><s>"), embedder->CountTokens("<<s>s>/"));  // text, not special tokens
  }
}

TEST_F(EmbeddingModels, CausalDecoderWithTheLastTokensVector) {
  const auto last = Load(Decoder(3)), mean = Load(Decoder(1));
  ASSERT_TRUE(last != nullptr && mean != nullptr);
  ExpectSoundVectors(*last);
  ExpectSoundVectors(*mean);
  EXPECT_NE(last->key(), mean->key());
  const std::vector<std::string_view> text = {"the cat sat"};
  EXPECT_LT(Dot(EmbedAll(*last, text), EmbedAll(*mean, text)), 0.999f);  // the file's pooling is what counts
}

TEST_F(EmbeddingModels, LongTextsAreCut) {
  std::string text;
  for (int i = 0; i < limits::kEmbedTokens; ++i) text += "the cat ";
  for (const auto& path : {Encoder(), Decoder(3)}) {
    const auto embedder = Load(path);
    ASSERT_NE(embedder, nullptr);
    EXPECT_GT(embedder->CountTokens(text), static_cast<size_t>(2 * limits::kEmbedTokens - 10));
    std::string longer = text + "mat mat mat";
    const std::vector<std::string_view> texts = {text, longer, std::string_view(text).substr(0, 200)};
    const std::vector<float> vectors = EmbedAll(*embedder, texts);
    const std::span<const float> a(vectors.data(), 32), b(vectors.data() + 32, 32), c(vectors.data() + 64, 32);
    EXPECT_LT(SquaredDistance(a, b), 1e-8f);
    EXPECT_GT(SquaredDistance(a, c), 1e-6f);
  }
}

TEST_F(EmbeddingModels, TextThatIsSplitForTheTokenizerLosesNothing) {
  const auto embedder = Load(Encoder());
  ASSERT_NE(embedder, nullptr);
  std::string text;
  while (text.size() < 3 * limits::kTokenizeSegmentBytes) text += " the cat";
  // Each piece begins with a space, and gets another one from this vocabulary.
  EXPECT_NEAR(static_cast<double>(embedder->CountTokens(text)), 2.0 + static_cast<double>(text.size()) / 4, 5.0);
  std::string letters(3 * limits::kTokenizeSegmentBytes, 'x');  // no space to split at
  EXPECT_NEAR(static_cast<double>(embedder->CountTokens(letters)), static_cast<double>(letters.size()), 8.0);
}

TEST_F(EmbeddingModels, ModelsThatMakeNoVectorsAreRefused) {
  for (const std::optional<uint32_t> pooling :
       {std::optional<uint32_t>(), std::optional<uint32_t>(0), std::optional<uint32_t>(4)}) {
    const auto loaded = LlamaEmbedder::Load(Decoder(pooling), 1);
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kModelUnsupported) << loaded.error().message;
  }
}

TEST_F(EmbeddingModels, InputErrors) {
  const auto embedder = Load(Decoder(3));
  ASSERT_NE(embedder, nullptr);
  const std::vector<std::string_view> bad = {"fine", "\xFF"};
  const auto refused = embedder->Embed(bad);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidUtf8);
  EXPECT_EQ(EmbedAll(*embedder, {}).size(), 0u);
}

}  // namespace
}  // namespace inferscale
