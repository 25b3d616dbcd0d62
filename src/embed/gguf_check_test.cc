#include "embed/gguf_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <sstream>

#include "base/file.h"
#include "embed/bert_test_util.h"
#include "embed/llama_embedder.h"
#include "embed/llama_log.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing::SmallBert;

class GgufTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("gguf_check_test." + std::to_string(::getpid()));
    fs::create_directories(folder_);
    path_ = folder_ / "small.gguf";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string SmallFile() {
    testing::WriteSmallBert({}, path_);
    return ReadFile(path_, 1 << 24).value();
  }
  void SetBytes(std::string_view bytes) { ASSERT_TRUE(WriteFileAtomic(path_, {&bytes, 1}, Durability::kFast)); }

  Error Refused(const Status& status) {
    EXPECT_FALSE(status);
    return status ? Error{} : status.error();
  }
  Error RefusedCheck(std::string_view bytes) {
    SetBytes(bytes);
    return Refused(CheckGgufFile(path_));
  }
  // What Load says of a small model with something wrong.
  std::string RefusedModel(const SmallBert& bert, ErrorCode code = ErrorCode::kModelUnsupported) {
    testing::WriteSmallBert(bert, path_);
    const auto loaded = LlamaEmbedder::Load(path_, 1);
    EXPECT_FALSE(loaded);
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code, code) << loaded.error().message;
    return loaded.error().message;
  }

  fs::path folder_, path_;
};

TEST_F(GgufTest, AWholeFileIsFine) {
  SmallFile();
  EXPECT_TRUE(CheckGgufFile(path_));
}

TEST_F(GgufTest, NotAFile) {
  EXPECT_EQ(Refused(CheckGgufFile(folder_ / "nothing")).code, ErrorCode::kNotFound);
  EXPECT_EQ(Refused(CheckGgufFile(folder_)).code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(RefusedCheck("").code, ErrorCode::kCorrupt);
  EXPECT_THAT(RefusedCheck("<!DOCTYPE html>, as a failed download leaves it").message, HasSubstr("not a GGUF file"));
}

TEST_F(GgufTest, EveryTruncationIsFound) {
  const std::string whole = SmallFile();
  for (size_t size = 0; size < whole.size(); size += size < 6000 ? 61 : 7919) {
    const Error error = RefusedCheck(std::string_view(whole).substr(0, size));
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << size << ": " << error.message;
  }
  EXPECT_THAT(RefusedCheck(std::string_view(whole).substr(0, whole.size() - 4096)).message, HasSubstr("cut short"));
}

TEST_F(GgufTest, VersionsAndCounts) {
  const std::string whole = SmallFile();
  const auto with = [&whole](size_t at, uint64_t value, size_t bytes) {
    std::string changed = whole;
    std::memcpy(changed.data() + at, &value, bytes);
    return changed;
  };
  for (const uint64_t version : {0u, 1u, 4u, 0x03000000u})  // the last: of a big-endian machine
    EXPECT_EQ(RefusedCheck(with(4, version, 4)).code, ErrorCode::kVersionUnsupported) << version;
  EXPECT_EQ(RefusedCheck(with(8, 1ull << 40, 8)).code, ErrorCode::kTooLarge);
  EXPECT_EQ(RefusedCheck(with(16, UINT64_MAX, 8)).code, ErrorCode::kTooLarge);
}

// Bytes of the header changed at random: any answer, but an answer. Beyond the check too, up to a vector.
TEST_F(GgufTest, GarbledHeadersNeverCrash) {
  const std::string whole = SmallFile();
  const size_t header = gguf_get_data_offset(OpenGgufFile(path_).value().get());
  std::mt19937 random(5);
  int refused = 0, loads = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole;
    for (size_t n = 1 + random() % 3; n > 0; --n) bytes[random() % header] = static_cast<char>(random());
    SetBytes(bytes);
    if (!CheckGgufFile(path_)) ++refused;
    const auto loaded = LlamaEmbedder::Load(path_, 1);
    if (!loaded) continue;
    ++loads;
    const std::string_view text = "the cats";
    (void)(*loaded)->Embed({&text, 1});
  }
  EXPECT_GT(refused, 20);  // the test looked at something
  EXPECT_GT(loads, 20);
}

TEST_F(GgufTest, TokensTwice) {
  SmallBert bert;
  bert.pieces.back() = "cat";
  testing::WriteSmallBert(bert, path_);
  EXPECT_THAT(Refused(CheckGgufFile(path_)).message, HasSubstr("twice"));
}

TEST_F(GgufTest, ByteTokensInWordPiece) {
  SmallBert bert;
  bert.change_keys = [](gguf_context* gguf) {
    std::vector<int32_t> types(testing::SmallVocabulary().size(), 1);
    types[9] = 6;
    gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  };
  EXPECT_THAT(RefusedModel(bert, ErrorCode::kCorrupt), HasSubstr("byte tokens"));
}

TEST_F(GgufTest, SplitModels) {
  SmallBert bert;
  bert.change_keys = [](gguf_context* gguf) { gguf_set_val_u16(gguf, "split.count", 2); };
  EXPECT_THAT(RefusedModel(bert), HasSubstr("several files"));
}

TEST_F(GgufTest, FingerprintSeesHeaderAndWeights) {
  const std::string whole = SmallFile();
  const auto fingerprint = [this] { return GgufFingerprint(path_, *OpenGgufFile(path_).value()).value(); };
  const Hash128 original = fingerprint();
  EXPECT_EQ(fingerprint(), original);
  std::string other = whole;
  other[other.size() - 40] ^= 1;  // a weight of the last tensor
  SetBytes(other);
  EXPECT_NE(fingerprint(), original);
  SmallBert renamed;
  renamed.change_keys = [](gguf_context* gguf) { gguf_set_val_str(gguf, "general.name", "other"); };
  testing::WriteSmallBert(renamed, path_);
  EXPECT_NE(fingerprint(), original);
}

TEST_F(GgufTest, SmallModelEmbeds) {
  SmallFile();
  auto loaded = LlamaEmbedder::Load(path_, 1);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ((*loaded)->dim(), 32u);
  EXPECT_EQ((*loaded)->name(), "small");
  EXPECT_EQ((*loaded)->CountTokens("the cats."), 6u);
  const std::vector<std::string_view> texts = {"the cats.", "", "un"};
  const auto vectors = (*loaded)->Embed(texts);
  ASSERT_TRUE(vectors) << vectors.error().message;
  for (size_t i = 0; i < texts.size(); ++i) {
    double length = 0;
    for (size_t d = 0; d < 32; ++d) length += (*vectors)[i * 32 + d] * (*vectors)[i * 32 + d];
    EXPECT_NEAR(length, 1, 1e-5);
  }
}

TEST_F(GgufTest, ModelsThatAreNoEmbedder) {
  const auto changed = [this](std::function<void(gguf_context*)> change,
                              ErrorCode code = ErrorCode::kModelUnsupported) {
    SmallBert bert;
    bert.change_keys = std::move(change);
    return RefusedModel(bert, code);
  };
  // Not BERT with WordPiece: llama.cpp is asked, and says no to these.
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_str(g, "general.architecture", "llama"); }, ErrorCode::kModelLoad),
              HasSubstr("llama.cpp cannot load"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_str(g, "tokenizer.ggml.model", "gpt2"); }, ErrorCode::kModelLoad),
              HasSubstr("llama.cpp cannot load"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "general.architecture", 3); }), HasSubstr("architecture"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_bool(g, "tokenizer.ggml.normalizer.lowercase", false); }),
              HasSubstr("uncased"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.pooling_type", 4); }), HasSubstr("pooling"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_bool(g, "bert.attention.causal", true); }), HasSubstr("causal"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.attention.head_count", 5); }), HasSubstr("heads"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.attention.head_count", 0); }), HasSubstr("head_count"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.context_length", 128); }), HasSubstr("128 tokens"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.block_count", 3); }), HasSubstr("blk.2"));
  EXPECT_THAT(changed([](auto* g) { gguf_remove_key(g, "tokenizer.ggml.token_type"); }), HasSubstr("vocabulary"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_f32(g, "bert.attention.layer_norm_epsilon", -1e-12f); }),
              HasSubstr("epsilon"));
  EXPECT_THAT(changed([](auto* g) { gguf_set_val_u32(g, "bert.attention.key_length", 8); }), HasSubstr("key_length"));
}

TEST_F(GgufTest, ModelsWithWrongTensorsOrVocabulary) {
  SmallBert bert;
  bert.without_tensor = "blk.1.ffn_up.bias";
  EXPECT_THAT(RefusedModel(bert), HasSubstr("blk.1.ffn_up.bias"));
  bert = {};
  bert.f16_tensor = "token_embd_norm.weight";
  EXPECT_THAT(RefusedModel(bert), HasSubstr("f16"));
  bert = {};
  bert.pieces.push_back("extra");
  EXPECT_THAT(RefusedModel(bert), HasSubstr("token_embd.weight"));
  bert = {};
  bert.pieces[3] = "[END]";
  EXPECT_THAT(RefusedModel(bert), HasSubstr("[SEP]"));
}

TEST_F(GgufTest, WeightsThatGiveNoVector) {
  SmallBert bert;
  bert.weight = 0;
  testing::WriteSmallBert(bert, path_);
  const auto loaded = LlamaEmbedder::Load(path_, 1);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const std::string_view text = "the cats";
  const auto made = (*loaded)->Embed({&text, 1});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kEngine);
}

TEST(LlamaLogTest, GoesToOurLogAndTheLastErrorIsKept) {
  std::ostringstream out;
  const auto before = spdlog::default_logger();
  auto logger = std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(out));
  logger->set_level(spdlog::level::debug);
  spdlog::set_default_logger(logger);
  InitLlamaLog();
  (void)TakeLlamaError();
  gguf_free(gguf_init_from_buffer("no magic", 8, {.no_alloc = true, .ctx = nullptr}));
  spdlog::set_default_logger(before);
  EXPECT_THAT(out.str(), HasSubstr("[debug] llama.cpp: "));
  EXPECT_THAT(TakeLlamaError(), HasSubstr("magic"));
  EXPECT_EQ(TakeLlamaError(), "");
}

}  // namespace
}  // namespace inferscale
