// The claim the product stands on, for every model we ship or test with: a text's own KV, injected at other positions,
// is as good as computing the text there; a wrong position or a wrong fact is not. On weights expanded to f32: with
// quantised ones llama.cpp rounds activations to 8 bits, and its own prefills at two positions differ by as much as
// this test looks for (continuation.h). What users run, the quantised file, is what the self-test measures.
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
    const auto expanded = std::filesystem::path(::testing::TempDir()) / fmt::format("injection.{}.gguf", getpid());
    ASSERT_TRUE(testing::ExpandToF32(path, expanded));
    auto file = LoadModelFile(expanded);
    std::filesystem::remove(expanded);  // stays mapped
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
    for (const char* question : {"Question: What did Emil buy, and where did he put it?\nAnswer:",
                                 "\nThe most interesting thing about these purchases is that", "\nIn summary, Emil"})
      questions_.push_back(tokenizer_->Text(question));
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

  using Continuations = std::vector<Continuation>;  // one per question

  // Every question behind what `fill` puts into the sequence; along plain's choices when they are given.
  template <class Fill>
  Continuations AskAll(uint32_t position, const Continuations& plain, Fill fill) {
    Continuations all;
    for (size_t i = 0; i < questions_.size(); ++i) {
      fill();
      auto made =
          Continue(*session_, questions_[i], position, kGreedySteps, plain.empty() ? Tokens() : plain[i].argmax);
      EXPECT_TRUE(made.has_value());
      all.push_back(std::move(*made));
    }
    return all;
  }

  Continuations Plain(uint32_t shift) {
    session_->Clear();
    EXPECT_TRUE(session_->Decode(text_, shift, false).has_value());
    const uint32_t end = shift + static_cast<uint32_t>(text_.size());
    return AskAll(end, {}, [&] { EXPECT_TRUE(session_->Truncate(end).has_value()); });
  }

  std::vector<KvPayload> CaptureFacts(uint32_t position) {
    std::vector<uint32_t> pieces;
    for (const Tokens& fact : facts_) pieces.push_back(static_cast<uint32_t>(fact.size()));
    session_->Clear();
    auto payloads = session_->DecodeAndCapture(text_, position, 0, pieces);
    EXPECT_TRUE(payloads.has_value());
    return std::move(*payloads);
  }

  Agreement Injected(const Continuations& plain, const std::vector<PlacedRecord>& placed, bool rotate = true) {
    const uint32_t end = placed.back().position + placed.back().payload->tokens();
    return Compare(plain, AskAll(end, plain, [&] {
                     const auto times = session_->Inject(nullptr, placed, end, rotate);
                     EXPECT_TRUE(times.has_value()) << times.error().message;
                   }));
  }

  static std::vector<PlacedRecord> InOrder(const std::vector<KvPayload>& payloads, uint32_t position) {
    std::vector<PlacedRecord> placed;
    for (const KvPayload& payload : payloads) {
      placed.push_back({&payload, position});
      position += payload.tokens();
    }
    return placed;
  }

  static std::vector<PlacedRecord> Reversed(const std::vector<KvPayload>& payloads, uint32_t position) {
    std::vector<PlacedRecord> placed;
    for (size_t i = payloads.size(); i-- > 0;) {
      placed.push_back({&payloads[i], position});
      position += payloads[i].tokens();
    }
    return placed;
  }

  // Each fact that the answer comes from (Emil's) has another fact's KV of the same length: all positions stay.
  static std::vector<PlacedRecord> Swapped(const std::vector<KvPayload>& payloads, uint32_t position) {
    std::vector<PlacedRecord> placed = InOrder(payloads, position);
    int count = 0;
    for (size_t i = 4; i < payloads.size(); i += 7) {
      for (size_t j = 0; j < payloads.size(); ++j) {
        if (j % 7 == 4 || payloads[j].tokens() != payloads[i].tokens()) continue;
        placed[i].payload = &payloads[j];
        ++count;
        break;
      }
    }
    EXPECT_GE(count, 1);
    return placed;
  }

  static constexpr AgreementBound kBound{};  // the self-test's, not loosened
  static constexpr int kFacts = 32;
  LlamaModelFile file_;
  std::unique_ptr<LlamaSession> session_;
  std::unique_ptr<LlamaTokenizer> tokenizer_;
  std::vector<Tokens> facts_;
  Tokens text_;
  std::vector<Tokens> questions_;
};

// One test, since expanding and loading the weights takes longer than each of these.
TEST_P(InjectionTest, EqualsPlainPrefillUnlessSomethingIsWrong) {
  const std::vector<KvPayload> payloads = CaptureFacts(0);
  for (const uint32_t shift : {0u, 3000u}) {
    const Agreement agreement = Injected(Plain(shift), InOrder(payloads, shift));
    EXPECT_TRUE(Agree(agreement, kBound)) << agreement.cosine << " at shift " << shift << ", flip " << agreement.flip;
    std::printf("%s: injected at %u: cosine %.6f, flip %.3f\n", GetParam().file, shift, agreement.cosine,
                agreement.flip);
  }
  const Continuations plain = Plain(61);
  EXPECT_TRUE(Agree(Injected(plain, InOrder(payloads, 61)), kBound));
  EXPECT_TRUE(Agree(Injected(plain, InOrder(CaptureFacts(500), 61)), kBound)) << "captured elsewhere";

  EXPECT_FALSE(Agree(Injected(plain, InOrder(payloads, 61), false), kBound)) << "rotation left out";
  EXPECT_FALSE(Agree(Injected(plain, Reversed(payloads, 61)), kBound)) << "right facts at wrong positions";
  EXPECT_FALSE(Agree(Injected(plain, Swapped(payloads, 61)), kBound)) << "other facts";
}

INSTANTIATE_TEST_SUITE_P(Models, InjectionTest,
                         ::testing::Values(ModelParam{testing::kSmolLm2, false}, ModelParam{testing::kQwen25, true},
                                           ModelParam{testing::kGemma3, true}),
                         [](const auto& info) {
                           const char first = info.param.file[0];
                           return first == 'S' ? "SmolLM2" : first == 'q' ? "Qwen25Coder" : "Gemma3";
                         });

}  // namespace
}  // namespace inferscale
