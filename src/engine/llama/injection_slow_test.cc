// The claim the product stands on, for every model we ship or test with: a text's own KV, injected at other positions,
// is as good as computing the text there; a wrong position or a wrong fact is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/assert.h"
#include "engine/llama/llama_model_file.h"
#include "engine/llama/llama_session.h"
#include "engine/llama/llama_tokenizer.h"
#include "engine/llama/model_test_util.h"
#include "engine/llama/selftest.h"

namespace inferscale {
namespace {

constexpr uint32_t kContext = 4096;
constexpr uint32_t kGreedySteps = 16;
constexpr double kCosineMin = 0.999;

struct ModelParam {
  const char* file;
  bool optional;
};

struct Trace {
  std::vector<std::vector<float>> logits;
  Tokens tokens;
};

// Two traces say the same when every step's logits agree and greedy decoding chose the same tokens.
bool SameContinuation(const Trace& a, const Trace& b) {
  if (a.tokens != b.tokens) return false;
  for (size_t i = 0; i < a.logits.size(); ++i)
    if (Cosine(a.logits[i], b.logits[i]) < kCosineMin) return false;
  return true;
}

class InjectionTest : public ::testing::TestWithParam<ModelParam> {
 protected:
  void SetUp() override {
    const auto path = testing::ModelForTest(GetParam().file, GetParam().optional);
    if (path.empty()) GTEST_SKIP() << "INFERSCALE_MODEL_DIR (or INFERSCALE_ALL_MODELS) is not set";
    auto file = LoadModelFile(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    file_ = std::move(*file);
    auto session = LlamaSession::Make(file_.model.get(), {.context_tokens = kContext, .threads = 2, .flash_attention = false,
                                                          .prefix_cells_bytes = 64u << 20});
    ASSERT_TRUE(session.has_value()) << session.error().message;
    session_ = std::move(*session);
    const Status probed = session_->Probe();
    ASSERT_TRUE(probed.has_value()) << probed.error().message;
    auto tokenizer = LlamaTokenizer::Make(file_.model.get());
    ASSERT_TRUE(tokenizer.has_value());
    tokenizer_ = std::move(*tokenizer);
    question_ = tokenizer_->Text("Question: What did Emil buy, and where did he put it?\nAnswer:");
    for (int i = 0; i < kFacts; ++i) {
      static constexpr const char* kNames[] = {"Anna", "Boris", "Chen", "Dora", "Emil", "Farah", "Goran"};
      static constexpr const char* kThings[] = {"a red bicycle", "two tickets to Lisbon", "an old piano", "a box of seeds"};
      static constexpr const char* kPlaces[] = {"behind the house", "on the top shelf", "in the cellar", "under the stairs", "at a friend's"};
      facts_.push_back(tokenizer_->Text(fmt::format("({} May 2023) {} bought {} for {} crowns and put it {}.\n", i + 1, kNames[i % 7],
                                                    kThings[i % 4], 11 + i * 17 % 90, kPlaces[i % 5])));
      text_.insert(text_.end(), facts_.back().begin(), facts_.back().end());
    }
    ASSERT_GE(text_.size(), 500u);  // shorter texts prove nothing
  }

  Trace Follow(uint32_t position) {
    Trace trace;
    Tokens next = question_;
    for (uint32_t step = 0; step < kGreedySteps; ++step) {
      EXPECT_TRUE(session_->Decode(next, position, true).has_value());
      position += static_cast<uint32_t>(next.size());
      trace.logits.emplace_back(session_->Logits().begin(), session_->Logits().end());
      trace.tokens.push_back(session_->Argmax());
      next = {trace.tokens.back()};
    }
    return trace;
  }

  Trace Plain(uint32_t shift) {
    session_->Clear();
    EXPECT_TRUE(session_->Decode(text_, shift, false).has_value());
    return Follow(shift + static_cast<uint32_t>(text_.size()));
  }

  std::vector<KvPayload> CaptureFacts(uint32_t position) {
    std::vector<uint32_t> pieces;
    for (const Tokens& fact : facts_) pieces.push_back(static_cast<uint32_t>(fact.size()));
    session_->Clear();
    auto payloads = session_->DecodeAndCapture(text_, position, 0, pieces);
    EXPECT_TRUE(payloads.has_value());
    return std::move(*payloads);
  }

  Trace Injected(const std::vector<KvPayload>& payloads, uint32_t shift, bool rotate = true) {
    std::vector<PlacedRecord> placed;
    uint32_t position = shift;
    for (const KvPayload& payload : payloads) {
      placed.push_back({&payload, position});
      position += payload.tokens();
    }
    const auto times = session_->Inject(nullptr, placed, position, rotate);
    EXPECT_TRUE(times.has_value()) << times.error().message;
    return Follow(position);
  }

  static constexpr int kFacts = 32;
  LlamaModelFile file_;
  std::unique_ptr<LlamaSession> session_;
  std::unique_ptr<LlamaTokenizer> tokenizer_;
  std::vector<Tokens> facts_;
  Tokens text_, question_;
};

TEST_P(InjectionTest, OwnKvAtShiftedPositionsEqualsPlainPrefill) {
  const std::vector<KvPayload> payloads = CaptureFacts(0);
  for (const uint32_t shift : {0u, 61u, 3000u}) {
    const Trace plain = Plain(shift), injected = Injected(payloads, shift);
    EXPECT_EQ(plain.tokens, injected.tokens) << "shift " << shift;
    for (uint32_t step = 0; step < kGreedySteps; ++step)
      EXPECT_GE(Cosine(plain.logits[step], injected.logits[step]), kCosineMin) << "shift " << shift << " step " << step;
  }
}

TEST_P(InjectionTest, KeysCapturedAtAnyPositionAreTheSame) {
  const std::vector<KvPayload> at0 = CaptureFacts(0), at500 = CaptureFacts(500);
  const Trace a = Injected(at0, 40), b = Injected(at500, 40);
  EXPECT_TRUE(SameContinuation(a, b));
}

TEST_P(InjectionTest, WithoutRotationTheTestFails) {
  const std::vector<KvPayload> payloads = CaptureFacts(0);
  const Trace plain = Plain(61);
  EXPECT_TRUE(SameContinuation(plain, Injected(payloads, 61)));
  EXPECT_FALSE(SameContinuation(plain, Injected(payloads, 61, false)));
}

TEST_P(InjectionTest, AWrongPositionFails) {
  const std::vector<KvPayload> payloads = CaptureFacts(0);
  const Trace plain = Plain(0);
  std::vector<PlacedRecord> placed;  // records in reverse places: right facts, wrong positions
  uint32_t position = 0;
  for (size_t i = payloads.size(); i-- > 0;) {
    placed.push_back({&payloads[i], position});
    position += payloads[i].tokens();
  }
  ASSERT_TRUE(session_->Inject(nullptr, placed, position).has_value());
  EXPECT_FALSE(SameContinuation(plain, Follow(position)));
}

TEST_P(InjectionTest, ASwappedFactFails) {
  std::vector<KvPayload> payloads = CaptureFacts(0);
  const Trace plain = Plain(0);
  // Every fact about Emil is replaced by its neighbour's KV of the same length, so that all positions stay.
  int swapped = 0;
  for (size_t i = 4; i < payloads.size(); i += 7) {
    for (size_t j = 0; j < payloads.size(); ++j) {
      if (j % 7 == 4 || payloads[j].tokens() != payloads[i].tokens()) continue;
      std::copy_n(payloads[j].data(), payloads[j].elements(), payloads[i].data());
      ++swapped;
      break;
    }
  }
  ASSERT_GE(swapped, 1);
  EXPECT_FALSE(SameContinuation(plain, Injected(payloads, 0)));
}

INSTANTIATE_TEST_SUITE_P(Models, InjectionTest,
                         ::testing::Values(ModelParam{testing::kSmolLm2, false}, ModelParam{testing::kQwen25, true},
                                           ModelParam{testing::kGemma3, true}),
                         [](const auto& info) {
                           const std::string file = info.param.file;
                           return file[0] == 'S' ? "SmolLM2" : file[0] == 'q' ? "Qwen25Coder" : "Gemma3";
                         });

}  // namespace
}  // namespace inferscale
