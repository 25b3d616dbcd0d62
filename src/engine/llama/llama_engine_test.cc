// The embedded engine on small random models: every architecture and rope variant it injects into, exactly, since their
// weights are F32; and what it must refuse.
#include "engine/llama/llama_engine.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/llama/continuation.h"
#include "engine/llama/random_model_test_util.h"
#include "engine/tokenizer.h"
#include "kernels/cpu/convert.h"

namespace inferscale {
namespace {

std::filesystem::path Folder() {
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("llama_engine_test." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  return folder;
}

std::unique_ptr<LlamaEngine> LoadRandom(const RandomModelSpec& spec, const std::filesystem::path& cache = {}) {
  const auto path = WriteRandomModel(spec, Folder());
  EXPECT_TRUE(path.has_value());
  auto engine = LlamaEngine::Load({.model_path = *path, .threads = 1, .context_tokens = 2048, .cache_folder = cache});
  EXPECT_TRUE(engine.has_value()) << engine.error().message;
  return engine ? std::move(*engine) : nullptr;
}

Tokens SomeTokens(size_t count, uint32_t seed) {
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(20 + (i * 31 + seed * 17) % 200));
  return tokens;
}

RecordHandle MakeRecord(const LlamaEngine& engine, const Tokens& tokens, KvPayload payload) {
  RecordKey key;
  key.name_space = "test";
  key.fact_id = "fact";
  key.token_ids = tokens;
  key.model_key = engine.info().model_key;
  return std::make_shared<KvRecord>(KvRecord{std::move(key), std::move(payload)});
}

struct Drained {
  Tokens tokens;
  FinishReason finish;
};
Drained Drain(GenerateStream& stream) {
  Drained drained;
  for (;;) {
    const auto token = stream.Next();
    EXPECT_TRUE(token.has_value());
    if (!token || !*token) break;
    drained.tokens.push_back(**token);
  }
  drained.finish = stream.finish_reason();
  return drained;
}

PromptPlan PlanOf(const LlamaEngine& engine, const Tokens& header, std::span<const RecordHandle> records,
                  const Tokens& rest) {
  PromptPlan plan;
  plan.model_key = engine.info().model_key;
  plan.prompt_tokens = header;
  plan.spans.push_back({SpanKind::kPrefix, Hasher().Ids(header).Finish(), 1, static_cast<uint32_t>(header.size())});
  for (const RecordHandle& record : records) {
    plan.spans.push_back({SpanKind::kRecord, record->key.Id(), 1, record->tokens()});
    plan.prompt_tokens.insert(plan.prompt_tokens.end(), record->key.token_ids.begin(), record->key.token_ids.end());
  }
  plan.prompt_tokens.insert(plan.prompt_tokens.end(), rest.begin(), rest.end());
  return plan;
}

// Worst cosine over tokens, keys and values apart.
double WorstTokenCosine(const KvPayload& a, const KvPayload& b) {
  EXPECT_TRUE(a.shape() == b.shape() && a.tokens() == b.tokens());
  const KvShape& shape = a.shape();
  double worst = 1;
  std::vector<float> x(shape.key_dim), y(shape.key_dim);
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      for (uint32_t token = 0; token < a.tokens(); ++token) {
        for (const bool is_key : {true, false}) {
          const uint16_t* p = is_key ? a.Key(head, layer) : a.Value(head, layer);
          const uint16_t* q = is_key ? b.Key(head, layer) : b.Value(head, layer);
          kernels::F16ToF32(p + token * shape.key_dim, x.data(), shape.key_dim);
          kernels::F16ToF32(q + token * shape.key_dim, y.data(), shape.key_dim);
          worst = std::min(worst, Cosine(x, y));
        }
      }
    }
  }
  return worst;
}

class RandomModelEngineTest : public ::testing::TestWithParam<RandomModelSpec> {};

TEST_P(RandomModelEngineTest, ProvesItselfAndInjects) {
  const auto engine = LoadRandom(GetParam());
  ASSERT_NE(engine, nullptr);
  const EngineInfo& info = engine->info();
  ASSERT_TRUE(info.can_inject) << info.text_mode_reason;
  EXPECT_TRUE(info.self_test.passed) << info.self_test.detail;
  EXPECT_GE(info.self_test.worst_cosine, 0.9999) << info.self_test.detail;
  EXPECT_LT(info.self_test.unrotated_cosine, 0.99) << info.self_test.detail;

  // An answer over injected facts is the answer over their text.
  const Tokens header = SomeTokens(9, 1), question = SomeTokens(7, 2);
  CaptureRequest request;
  request.stem = header;
  for (uint32_t i = 0; i < 12; ++i) request.fresh.push_back(SomeTokens(11 + i % 3, 3 + i));
  auto captured = engine->Capture(request).get();
  ASSERT_TRUE(captured.has_value()) << captured.error().message;
  std::vector<RecordHandle> records;
  for (size_t i = 0; i < request.fresh.size(); ++i)
    records.push_back(MakeRecord(*engine, request.fresh[i], std::move(captured->payloads[i])));
  const PromptPlan plan = PlanOf(*engine, header, records, question);
  PromptPlan text = plan;
  text.spans.clear();
  auto injected = engine->Submit({.plan = plan, .records = records, .max_tokens = 16});
  ASSERT_TRUE(injected.has_value()) << injected.error().message;
  auto computed = engine->Submit({.plan = text, .records = {}, .max_tokens = 16});
  ASSERT_TRUE(computed.has_value());
  EXPECT_EQ(Drain(**injected).tokens, Drain(**computed).tokens);
}

TEST_P(RandomModelEngineTest, RunExtensionAndOneByOneGiveTheSameRecords) {
  const auto engine = LoadRandom(GetParam());
  ASSERT_NE(engine, nullptr);
  const Tokens stem = SomeTokens(60, 1);
  std::vector<Tokens> facts;
  for (uint32_t i = 0; i < 8; ++i) facts.push_back(SomeTokens(10 + i, 5 + i));
  const auto run = engine->Capture({.stem = stem, .members = {}, .fresh = facts}).get();
  ASSERT_TRUE(run.has_value());
  EXPECT_EQ(run->payloads.size(), facts.size());

  std::vector<RecordHandle> members;
  Tokens before = stem;
  for (size_t i = 0; i < facts.size(); ++i) {
    const auto alone = engine->Capture({.stem = before, .members = {}, .fresh = {facts[i]}}).get();
    ASSERT_TRUE(alone.has_value());
    EXPECT_GE(WorstTokenCosine(run->payloads[i], alone->payloads[0]), 0.9999) << "one by one, fact " << i;
    auto extended = engine->Capture({.stem = stem, .members = members, .fresh = {facts[i]}, .keep_stem = true}).get();
    ASSERT_TRUE(extended.has_value());
    EXPECT_GE(WorstTokenCosine(run->payloads[i], extended->payloads[0]), 0.9999) << "extended, fact " << i;
    EXPECT_EQ(extended->computed_tokens, facts[i].size() + (i == 0 ? stem.size() : 0)) << "the stem is kept";
    members.push_back(MakeRecord(*engine, facts[i], std::move(extended->payloads[0])));
    before.insert(before.end(), facts[i].begin(), facts[i].end());
  }
  // The comparison can fail: another window gives other records.
  const auto other = engine->Capture({.stem = SomeTokens(60, 9), .members = {}, .fresh = {facts[0]}}).get();
  ASSERT_TRUE(other.has_value());
  EXPECT_LT(WorstTokenCosine(run->payloads[0], other->payloads[0]), 0.9999);
}

INSTANTIATE_TEST_SUITE_P(Models, RandomModelEngineTest, ::testing::ValuesIn(InjectableRandomModels()),
                         [](const auto& info) { return info.param.name; });

class TextModeTest : public ::testing::TestWithParam<RandomModelSpec> {};

TEST_P(TextModeTest, AnswersAsTextAndSaysWhy) {
  const auto engine = LoadRandom(GetParam());
  ASSERT_NE(engine, nullptr);
  EXPECT_FALSE(engine->info().can_inject);
  EXPECT_NE(engine->info().text_mode_reason.find(GetParam().architecture), std::string::npos);
  PromptPlan plan;
  plan.prompt_tokens = SomeTokens(20, 1);
  auto stream = engine->Submit({.plan = plan, .records = {}, .max_tokens = 4});
  ASSERT_TRUE(stream.has_value()) << stream.error().message;
  EXPECT_EQ(Drain(**stream).tokens.size(), 4u);
  const auto refused = engine->Capture({.stem = {1}, .members = {}, .fresh = {{2}}}).get();
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kModelUnsupported);
}

INSTANTIATE_TEST_SUITE_P(Models, TextModeTest, ::testing::ValuesIn(TextModeRandomModels()),
                         [](const auto& info) { return info.param.name; });

TEST(LlamaEngineTest, PlansThatCannotRunAreRefused) {
  const auto engine = LoadRandom({});
  ASSERT_NE(engine, nullptr);
  const Tokens header = SomeTokens(5, 1), fact = SomeTokens(9, 2), question = SomeTokens(4, 3);
  auto captured = engine->Capture({.stem = header, .members = {}, .fresh = {fact}}).get();
  ASSERT_TRUE(captured.has_value());
  const std::vector<RecordHandle> records = {MakeRecord(*engine, fact, std::move(captured->payloads[0]))};
  const PromptPlan good = PlanOf(*engine, header, records, question);
  const auto code = [&](PromptPlan plan, std::vector<RecordHandle> with, uint32_t max_tokens) {
    auto stream = engine->Submit({.plan = std::move(plan), .records = std::move(with), .max_tokens = max_tokens});
    return stream ? ErrorCode::kInternal : stream.error().code;
  };
  PromptPlan plan = good;
  EXPECT_EQ(code(plan, {}, 4), ErrorCode::kInvalidArgument) << "a span without a record";
  EXPECT_EQ(code(plan, records, 0), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(plan, records, 5000), ErrorCode::kPromptTooLong);
  plan.prompt_tokens[7] += 1;
  EXPECT_EQ(code(plan, records, 4), ErrorCode::kMismatch) << "other tokens than the record's";
  plan = good;
  plan.prompt_tokens.back() = engine->tokenizer().vocabulary_size();
  EXPECT_EQ(code(plan, records, 4), ErrorCode::kInvalidArgument) << "no such token";
  plan = good;
  plan.model_key.low ^= 1;
  EXPECT_EQ(code(plan, records, 4), ErrorCode::kMismatch);
  plan = good;
  plan.prompt_tokens.resize(plan.InjectedTokens());
  EXPECT_EQ(code(plan, records, 4), ErrorCode::kInvalidArgument) << "nothing to compute";
  EXPECT_EQ(engine->Capture({.stem = {}, .members = {}, .fresh = {fact}}).get().error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(engine->Capture({.stem = SomeTokens(2040, 1), .members = {}, .fresh = {fact}}).get().error().code,
            ErrorCode::kPromptTooLong);
}

PromptPlan PlainPlan(const LlamaEngine& engine, uint32_t tokens) {  // nothing is injected
  PromptPlan plan;
  plan.model_key = engine.info().model_key;
  plan.prompt_tokens = SomeTokens(tokens, 1);
  return plan;
}

TEST(LlamaEngineTest, CancelEndsAStreamAndFreesTheEngine) {
  const auto engine = LoadRandom({});
  ASSERT_NE(engine, nullptr);
  const PromptPlan plan = PlainPlan(*engine, 30);
  auto stream = engine->Submit({.plan = plan, .records = {}, .max_tokens = 2000});
  ASSERT_TRUE(stream.has_value());
  ASSERT_TRUE((*stream)->Next().has_value());
  (*stream)->Cancel();
  const Drained drained = Drain(**stream);
  EXPECT_EQ(drained.finish, FinishReason::kCancelled);
  EXPECT_LT(drained.tokens.size(), 1999u);
  auto abandoned = engine->Submit({.plan = plan, .records = {}, .max_tokens = 2000});
  ASSERT_TRUE(abandoned.has_value());
  abandoned->reset();  // must not hang, nor wait for 2,000 tokens
  auto next = engine->Submit({.plan = plan, .records = {}, .max_tokens = 3});
  ASSERT_TRUE(next.has_value());
  EXPECT_EQ(Drain(**next).tokens.size(), 3u);
}

TEST(LlamaEngineTest, CancelEndsAnAnswerTheEngineHadFinished) {
  const auto engine = LoadRandom({});
  ASSERT_NE(engine, nullptr);
  const PromptPlan plan = PlainPlan(*engine, 30);
  auto stream = engine->Submit({.plan = plan, .records = {}, .max_tokens = 4});
  ASSERT_TRUE(stream.has_value());
  ASSERT_TRUE((*stream)->Next().has_value());
  // Requests are answered one after another: when the second is there, the first has ended.
  auto behind = engine->Submit({.plan = plan, .records = {}, .max_tokens = 4});
  ASSERT_TRUE(behind.has_value());
  EXPECT_EQ(Drain(**behind).tokens.size(), 4u);
  (*stream)->Cancel();
  const Drained drained = Drain(**stream);
  EXPECT_TRUE(drained.tokens.empty());
  EXPECT_EQ(drained.finish, FinishReason::kCancelled);
}

TEST(LlamaEngineTest, SelfTestResultIsKept) {
  const auto cache = Folder() / "kept";
  const auto first = LoadRandom({}, cache);
  ASSERT_NE(first, nullptr);
  const auto count = [&] {
    return std::distance(std::filesystem::directory_iterator(cache), std::filesystem::directory_iterator());
  };
  EXPECT_EQ(count(), 1);
  const auto again = LoadRandom({}, cache);
  ASSERT_NE(again, nullptr);
  EXPECT_EQ(again->info().self_test.detail, first->info().self_test.detail);
  EXPECT_EQ(count(), 1);
}

TEST(LlamaEngineTest, PartialRotaryThatLlamaCppAbortsOnIsRefused) {
  RandomModelSpec spec;
  spec.name = "qwen3_partial";
  spec.architecture = "qwen3";
  spec.rotary_dims = 16;
  const auto path = WriteRandomModel(spec, Folder());
  ASSERT_TRUE(path.has_value());
  const auto engine = LlamaEngine::Load({.model_path = *path, .threads = 1});
  ASSERT_FALSE(engine.has_value());
  EXPECT_EQ(engine.error().code, ErrorCode::kModelUnsupported);
}

}  // namespace
}  // namespace inferscale
