// Against the original tokenizer and model, on real weights.
#include "embed/llama_embedder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <set>
#include <thread>

#include "base/limits.h"
#include "embed/bert_file.h"
#include "embed/golden_test_util.h"
#include "embed/unicode.h"

namespace inferscale {
namespace {

using testing::GoldenSentence;
using testing::GoldenSentences;

// The smallest cosine to the original's vector that counts as equal. f16 weights give 0.99999 and more; a text with one
// word changed gives 0.965 (AlmostEqualTextsAreToldApart).
constexpr double kCosine = 0.9999;

double Dot(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}
double Cosine(std::span<const float> a, std::span<const float> b) {
  return Dot(a, b) / std::sqrt(Dot(a, a) * Dot(b, b));
}

class MiniLm : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::filesystem::path path = testing::MiniLmForTest();
    if (path.empty()) GTEST_SKIP() << "INFERSCALE_MODEL_DIR is not set";
    auto loaded = LlamaEmbedder::Load(path, 1);
    ASSERT_TRUE(loaded) << loaded.error().message;
    embedder_ = std::move(*loaded);
  }

  WordPiece Tokenizer() {
    const auto file = ReadBertFile(testing::MiniLmForTest());
    return WordPiece::Make(file.value().pieces).value();
  }
  std::vector<float> Embed(std::string_view text) {
    auto made = embedder_->Embed({&text, 1});
    EXPECT_TRUE(made) << made.error().message;
    return made.value_or(std::vector<float>(embedder_->dim()));
  }

  std::unique_ptr<LlamaEmbedder> embedder_;
};

TEST_F(MiniLm, IdsEqualTheOriginals) {
  const WordPiece tokenizer = Tokenizer();
  std::set<std::string> scripts;
  const std::vector<GoldenSentence> sentences = GoldenSentences();
  for (const GoldenSentence& s : sentences) {
    scripts.insert(s.script);
    EXPECT_EQ(tokenizer.Encode(s.text, limits::kEmbedTokens), s.ids) << s.script << ": " << s.text;
    EXPECT_EQ(embedder_->CountTokens(s.text), s.uncut) << s.script << ": " << s.text;
  }
  EXPECT_GE(sentences.size(), 200u);
  EXPECT_GE(scripts.size(), 12u);
}

// Every character there is, between two letters.
TEST_F(MiniLm, EveryCodePointEqualsTheOriginals) {
  const WordPiece tokenizer = Tokenizer();
  const std::vector<uint64_t> expected = testing::GoldenCodePointBlocks();
  for (size_t block = 0; block < expected.size(); ++block) {
    std::vector<uint16_t> all;
    for (char32_t c = static_cast<char32_t>(block * 4096); c < (block + 1) * 4096; ++c) {
      if (c >= 0xD800 && c < 0xE000) continue;
      std::string text = "a";
      unicode::AppendUtf8(c, text);
      const std::vector<int32_t> ids = tokenizer.Encode(text + "b", SIZE_MAX);
      all.push_back(static_cast<uint16_t>(ids.size() - 2));
      all.insert(all.end(), ids.begin() + 1, ids.end() - 1);
    }
    EXPECT_EQ(Checksum64(all.data(), all.size() * sizeof(uint16_t)), expected[block])
        << "code points from " << block * 4096;
  }
}

TEST_F(MiniLm, VectorsEqualTheOriginals) {
  const std::vector<GoldenSentence> sentences = GoldenSentences();
  std::vector<std::string_view> texts;
  for (const GoldenSentence& s : sentences) texts.push_back(s.text);
  const auto vectors = embedder_->Embed(texts);
  ASSERT_TRUE(vectors) << vectors.error().message;
  const uint32_t dim = embedder_->dim();
  ASSERT_EQ(vectors->size(), sentences.size() * dim);
  double worst = 1;
  for (size_t i = 0; i < sentences.size(); ++i) {
    const std::span<const float> vector(vectors->data() + i * dim, dim);
    const double cosine = Cosine(vector, sentences[i].vector);
    worst = std::min(worst, cosine);
    EXPECT_GE(cosine, kCosine) << sentences[i].script << ": " << sentences[i].text;
    EXPECT_NEAR(Dot(vector, vector), 1, 1e-5);
  }
  RecordProperty("smallest_cosine", std::to_string(worst));
}

TEST_F(MiniLm, AlmostEqualTextsAreToldApart) {  // kCosine can fail
  EXPECT_LT(Cosine(Embed("Ana moved to Porto in March."), Embed("Ana moved to Porto in May.")), 0.98);
}

TEST_F(MiniLm, BatchesGiveTheVectorsOfSingleTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) {
    std::string& text = texts.emplace_back("fact " + std::to_string(i));
    for (int n = 0; n < i * i % 23; ++n) text += " and more words";
  }
  const std::vector<std::string_view> views(texts.begin(), texts.end());
  const auto batch = embedder_->Embed(views);
  ASSERT_TRUE(batch) << batch.error().message;
  for (size_t i = 0; i < texts.size(); i += 7) {
    const std::span<const float> vector(batch->data() + i * embedder_->dim(), embedder_->dim());
    EXPECT_GE(Cosine(vector, Embed(texts[i])), 0.99999) << i;
  }
}

TEST_F(MiniLm, InputErrors) {
  const std::vector<std::string_view> invalid = {"fine", "bad \xFF byte"};
  auto made = embedder_->Embed(invalid);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidUtf8);
  EXPECT_NE(made.error().message.find("text 2"), std::string::npos) << made.error().message;
  EXPECT_NE(made.error().message.find("byte 4"), std::string::npos) << made.error().message;

  const std::string large(limits::kQuestionBytes + 1, 'x');
  const std::vector<std::string_view> too_large = {large};
  made = embedder_->Embed(too_large);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kTooLarge);

  EXPECT_EQ(embedder_->Embed({}).value().size(), 0u);
  EXPECT_EQ(embedder_->CountTokens("bad \xFF byte"), embedder_->CountTokens("bad byte")) << "no error, no crash";
}

TEST_F(MiniLm, ThreadsTakeTurns) {
  const std::vector<float> a = Embed("the first text"), b = Embed("quite another, somewhat longer text");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 5; ++i) {
        const std::vector<float> made = Embed(t % 2 ? "the first text" : "quite another, somewhat longer text");
        EXPECT_EQ(made, t % 2 ? a : b);
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(MiniLm, KeyIsOfTheFile) {
  const auto again = LlamaEmbedder::Load(testing::MiniLmForTest(), 1);
  EXPECT_EQ((*again)->key(), embedder_->key());
  EXPECT_EQ(embedder_->name(), "all-MiniLM-L6-v2");
  EXPECT_EQ(embedder_->dim(), 384u);
}

}  // namespace
}  // namespace inferscale
