// The claim the product stands on, for every model we ship or test with: a text's own KV, injected at other positions,
// is as good as computing the text there; a wrong position or a wrong fact is not.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "engine/llama/continuation.h"
#include "engine/llama/llama_model_file.h"
#include "engine/llama/llama_session.h"
#include "engine/llama/llama_tokenizer.h"
#include "engine/llama/model_test_util.h"

namespace inferscale {
namespace {

constexpr uint32_t kContext = 4096;
constexpr uint32_t kGreedySteps = 16;

struct ModelParam {
  const char* file;
  bool optional;
};

class InjectionTest : public ::testing::TestWithParam<ModelParam> {
 protected:
  void SetUp() override {
    const auto path = testing::ModelForTest(GetParam().file, GetParam().optional);
    if (path.empty()) GTEST_SKIP() << "INFERSCALE_MODEL_DIR (or INFERSCALE_ALL_MODELS) is not set";
    auto file = LoadModelFile(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    file_ = std::move(*file);
    auto session = LlamaSession::Make(
        file_.model.get(),
        {.context_tokens = kContext, .threads = 2, .flash_attention = false, .prefix_cells_bytes = 64u << 20});
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
      static constexpr const char* kThings[] = {"a red bicycle", "two tickets to Lisbon", "an old piano",
                                                "a box of seeds"};
      static constexpr const char* kPlaces[] = {"behind the house", "on the top shelf", "in the cellar",
                                                "under the stairs", "at a friend's"};
      facts_.push_back(tokenizer_->Text(fmt::format("({} May 2023) {} bought {} for {} crowns and put it {}.\n", i + 1,
                                                    kNames[i % 7], kThings[i % 4], 11 + i * 17 % 90, kPlaces[i % 5])));
      text_.insert(text_.end(), facts_.back().begin(), facts_.back().end());
    }
    ASSERT_GE(text_.size(), 500u);  // shorter texts prove nothing
  }

  // forced: the choices to follow; empty: its own.
  Continuation Follow(uint32_t position, const Tokens& forced = {}) {
    auto made = Continue(*session_, question_, position, kGreedySteps, forced);
    EXPECT_TRUE(made.has_value());
    return std::move(*made);
  }

  Continuation Plain(uint32_t shift) {
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

  Agreement Injected(const Continuation& plain, const std::vector<PlacedRecord>& placed, bool rotate = true) {
    const uint32_t end = placed.back().position + placed.back().payload->tokens();
    const auto times = session_->Inject(nullptr, placed, end, rotate);
    EXPECT_TRUE(times.has_value()) << times.error().message;
    const Continuation injected = Follow(end, plain.argmax);
    return Compare({&plain, 1}, {&injected, 1});
  }

  // How well the engine agrees with itself at another position: Gemma 3 at 4 bits less than 0.999.
  double Bound(const Continuation& plain, uint32_t other_shift) {
    session_->Clear();
    EXPECT_TRUE(session_->Decode(text_, other_shift, false).has_value());
    const Continuation other = Follow(other_shift + static_cast<uint32_t>(text_.size()), plain.argmax);
    const Agreement own = Compare({&plain, 1}, {&other, 1});
    std::printf("%s: the engine with itself, other position: %.5f\n", GetParam().file, own.cosine);
    return CosineBound(own);
  }

  static std::vector<PlacedRecord> InOrder(const std::vector<KvPayload>& payloads, uint32_t position) {
    std::vector<PlacedRecord> placed;
    for (const KvPayload& payload : payloads) {
      placed.push_back({&payload, position});
      position += payload.tokens();
    }
    return placed;
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
    const Continuation plain = Plain(shift);
    const Agreement agreement = Injected(plain, InOrder(payloads, shift));
    EXPECT_GE(agreement.cosine, Bound(plain, shift + 101)) << "shift " << shift;
    EXPECT_TRUE(agreement.same_tokens) << "shift " << shift;
    std::printf("%s: injected at shift %u: %.5f\n", GetParam().file, shift, agreement.cosine);
  }
}

TEST_P(InjectionTest, KeysCapturedElsewhereAreAsGood) {
  const std::vector<KvPayload> payloads = CaptureFacts(500);
  const Continuation plain = Plain(40);
  EXPECT_TRUE(Agree(Injected(plain, InOrder(payloads, 40)), Bound(plain, 141)));
}

TEST_P(InjectionTest, WhatIsWrongFails) {
  const std::vector<KvPayload> payloads = CaptureFacts(0);
  const Continuation plain = Plain(61);
  const double bound = Bound(plain, 162);
  EXPECT_TRUE(Agree(Injected(plain, InOrder(payloads, 61)), bound));
  EXPECT_FALSE(Agree(Injected(plain, InOrder(payloads, 61), false), bound)) << "rotation left out";

  std::vector<PlacedRecord> reversed;  // right facts at wrong positions
  uint32_t position = 61;
  for (size_t i = payloads.size(); i-- > 0;) {
    reversed.push_back({&payloads[i], position});
    position += payloads[i].tokens();
  }
  EXPECT_FALSE(Agree(Injected(plain, reversed), bound)) << "wrong positions";

  // Each fact that the answer comes from (Emil's) has another fact's KV of the same length: all positions stay.
  std::vector<PlacedRecord> swapped = InOrder(payloads, 61);
  int count = 0;
  for (size_t i = 4; i < payloads.size(); i += 7) {
    for (size_t j = 0; j < payloads.size(); ++j) {
      if (j % 7 == 4 || payloads[j].tokens() != payloads[i].tokens()) continue;
      swapped[i].payload = &payloads[j];
      ++count;
      break;
    }
  }
  ASSERT_GE(count, 1);
  EXPECT_FALSE(Agree(Injected(plain, swapped), bound)) << "swapped facts";
}

// Gemma 3 270M is not here yet: its keys are right to one rounding, but with activations rounded to 8 bits the engine
// agrees with its own prefill at another position to 0.994 only, so that one question decides nothing.
INSTANTIATE_TEST_SUITE_P(Models, InjectionTest,
                         ::testing::Values(ModelParam{testing::kSmolLm2, false}, ModelParam{testing::kQwen25, true}),
                         [](const auto& info) {
                           return std::string(info.param.file)[0] == 'S' ? "SmolLM2" : "Qwen25Coder";
                         });

}  // namespace
}  // namespace inferscale
