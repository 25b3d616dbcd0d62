// What the engine held of a fact is nowhere in the process after Wipe: tokens, keys, values.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "base/clear_freed.h"
#include "base/memory_scan_test_util.h"
#include "engine/llama/llama_engine.h"
#include "engine/llama/random_model_test_util.h"

namespace inferscale {
namespace {

constexpr uint32_t kFactTokens = 40;

struct Needle {
  std::string name;
  HiddenBytes bytes;
};

HiddenBytes Hide(const void* bytes, size_t size) {
  std::string copy(static_cast<const char*>(bytes), size);
  return HiddenBytes::Of(copy);
}

// A row of keys before rotation, a row of values, and one dimension's values of 32 tokens, as transposed cells lie.
std::vector<Needle> NeedlesOf(const Tokens& fact, const KvPayload& payload) {
  const KvShape& shape = payload.shape();
  std::vector<Needle> needles;
  needles.push_back({"token ids", Hide(fact.data(), fact.size() * sizeof(TokenId))});
  for (uint32_t layer = 0; layer < shape.layers; ++layer) {
    const std::string where = " of layer " + std::to_string(layer);
    const uint16_t* values = payload.Value(1, layer);
    needles.push_back({"a key" + where, Hide(payload.Key(1, layer) + 7 * shape.key_dim, shape.key_dim * 2)});
    needles.push_back({"a value" + where, Hide(values + 7 * shape.value_dim, shape.value_dim * 2)});
    uint16_t column[32];
    for (uint32_t t = 0; t < 32; ++t) column[t] = values[t * shape.value_dim + 5];
    needles.push_back({"a dimension's values" + where, Hide(column, sizeof column)});
    explicit_bzero(column, sizeof column);
  }
  return needles;
}

Tokens SomeTokens(size_t count, uint32_t seed) {
  Tokens tokens;
  for (size_t i = 0; i < count; ++i) tokens.push_back(static_cast<TokenId>(20 + (i * 31 + seed * 17) % 200));
  return tokens;
}

void Answer(LlamaEngine& engine, GenerateRequest request) {
  request.max_tokens = 6;
  auto stream = engine.Submit(std::move(request));
  ASSERT_TRUE(stream.has_value()) << stream.error().message;
  for (;;) {
    const auto token = (*stream)->Next();
    ASSERT_TRUE(token.has_value()) << token.error().message;
    if (!*token) return;
  }
}

// Captures a fact, answers with it injected, then as text in a conversation that a capture interrupts.
std::vector<Needle> Use(LlamaEngine& engine) {
  const Tokens header = SomeTokens(9, 1), question = SomeTokens(7, 2), fact = SomeTokens(kFactTokens, 3);
  CaptureRequest capture;
  capture.stem = header;
  capture.fresh = {fact};
  auto captured = engine.Capture(capture).get();
  EXPECT_TRUE(captured.has_value());
  std::vector<Needle> needles = NeedlesOf(fact, captured->payloads[0]);
  RecordKey key;
  key.name_space = "test";
  key.fact_id = "fact";
  key.token_ids = fact;
  key.model_key = engine.info().model_key;
  const auto record = std::make_shared<const KvRecord>(KvRecord{std::move(key), std::move(captured->payloads[0])});
  GenerateRequest request;
  request.plan.model_key = engine.info().model_key;
  request.plan.prompt_tokens = header;
  request.plan.spans.push_back(
      {SpanKind::kPrefix, Hasher().Ids(header).Finish(), 1, static_cast<uint32_t>(header.size())});
  request.plan.spans.push_back({SpanKind::kRecord, record->key.Id(), 1, record->tokens()});
  for (const Tokens* more : {&fact, &question})
    request.plan.prompt_tokens.insert(request.plan.prompt_tokens.end(), more->begin(), more->end());
  request.records = {record};
  Answer(engine, request);
  request.conversation = {3, 4};
  Answer(engine, request);
  capture.fresh = {SomeTokens(11, 9)};
  EXPECT_TRUE(engine.Capture(capture).get().has_value());
  request.plan.spans.clear();
  request.records.clear();
  Answer(engine, request);
  return needles;
}

TEST(LlamaWipeTest, NothingOfAFactIsLeft) {
  if (!FreedHeapIsCleared()) GTEST_SKIP() << "a sanitizer has the heap";
  const auto folder = std::filesystem::path(::testing::TempDir()) / ("llama_wipe_test." + std::to_string(getpid()));
  std::filesystem::create_directories(folder);
  const auto path = WriteRandomModel({}, folder);
  ASSERT_TRUE(path.has_value());
  auto engine = LlamaEngine::Load({.model_path = *path, .threads = 1, .context_tokens = 2048});
  ASSERT_TRUE(engine.has_value()) << engine.error().message;
  const std::vector<Needle> needles = Use(**engine);
  size_t found = 0;
  for (const Needle& needle : needles) found += needle.bytes.CountInMemory() > 0 ? 1 : 0;
  EXPECT_GE(found, 3u) << "the search finds nothing even while the engine holds it";
  ASSERT_TRUE((*engine)->Wipe().get().has_value());
  for (const Needle& needle : needles) EXPECT_EQ(needle.bytes.CountInMemory(), 0u) << needle.name;
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace inferscale
