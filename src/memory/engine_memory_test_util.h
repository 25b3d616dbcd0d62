// A memory with the embedded engine on a small random model, watched from outside. Headers only: the memory's tests
// without llama.cpp link every *_test_util.cc of this folder.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/clock.h"
#include "core/fact.h"
#include "engine/llama/continuation.h"
#include "engine/llama/llama_engine.h"
#include "engine/llama/random_model_test_util.h"
#include "engine/prompt_layout.h"
#include "engine/tokenizer.h"
#include "kernels/cpu/convert.h"
#include "memory/fact_encoder.h"
#include "memory/memory_test_util.h"

namespace inferscale {

// Passes what it is asked for on, one pass at a time, and notes it.
class WatchedEngine final : public Engine {
 public:
  struct Pass {
    double began_ms = 0, ended_ms = 0;  // since the engine was made
    size_t stem = 0, members = 0, fresh = 0, fresh_tokens = 0, computed = 0;
  };

  explicit WatchedEngine(std::unique_ptr<LlamaEngine> engine) : engine_(std::move(engine)) {}

  // Called before each pass, without a lock; what it returns fails the pass.
  void BeforePass(std::function<Status(const CaptureRequest&)> hook) { before_ = std::move(hook); }
  void BeforeAnswer(std::function<Status()> hook) { before_answer_ = std::move(hook); }  // likewise

  std::vector<Pass> passes() const {
    const std::lock_guard lock(mutex_);
    return passes_;
  }
  bool WaitForPasses(size_t count) const {  // to half a minute
    std::unique_lock lock(mutex_);
    return passed_.wait_for(lock, std::chrono::seconds(30), [&] { return passes_.size() >= count; });
  }
  std::vector<GenerateRequest> answers() const {
    const std::lock_guard lock(mutex_);
    return answers_;
  }

  const EngineInfo& info() const override { return engine_->info(); }
  const Tokenizer& tokenizer() const override { return engine_->tokenizer(); }
  const ChatTemplate* chat_template() const override { return engine_->chat_template(); }
  Result<std::unique_ptr<GenerateStream>> Submit(GenerateRequest request) override {
    if (before_answer_) TRY(before_answer_());
    {
      const std::lock_guard lock(mutex_);
      answers_.push_back(request);
    }
    return engine_->Submit(std::move(request));
  }
  std::future<Result<CaptureResult>> Capture(CaptureRequest request) override {
    std::promise<Result<CaptureResult>> promise;
    promise.set_value(RunPass(std::move(request)));
    return promise.get_future();
  }
  std::future<Status> Wipe() override { return engine_->Wipe(); }

 private:
  Result<CaptureResult> RunPass(CaptureRequest request) {
    if (before_) TRY(before_(request));
    Pass pass;
    pass.stem = request.stem.size();
    pass.members = request.members.size();
    pass.fresh = request.fresh.size();
    for (const Tokens& piece : request.fresh) pass.fresh_tokens += piece.size();
    pass.began_ms = watch_.Millis();
    auto result = engine_->Capture(std::move(request)).get();
    pass.ended_ms = watch_.Millis();
    if (result) pass.computed = result->computed_tokens;
    const std::lock_guard lock(mutex_);
    passes_.push_back(pass);
    passed_.notify_all();
    return result;
  }

  std::unique_ptr<LlamaEngine> engine_;
  std::function<Status(const CaptureRequest&)> before_;
  std::function<Status()> before_answer_;
  Stopwatch watch_;
  mutable std::mutex mutex_;
  mutable std::condition_variable passed_;
  std::vector<Pass> passes_;
  std::vector<GenerateRequest> answers_;
};

// Worst cosine over tokens, keys and values apart.
inline double WorstTokenCosine(const KvPayload& a, const KvPayload& b) {
  EXPECT_TRUE(a.shape() == b.shape() && a.tokens() == b.tokens());
  const KvShape& shape = a.shape();
  double worst = 1;
  const auto compare = [&](const uint16_t* p, const uint16_t* q, uint32_t dim) {
    std::vector<float> x(dim), y(dim);
    for (uint32_t token = 0; token < a.tokens(); ++token) {
      kernels::F16ToF32(p + token * dim, x.data(), dim);
      kernels::F16ToF32(q + token * dim, y.data(), dim);
      worst = std::min(worst, Cosine(x, y));
    }
  };
  for (uint32_t layer = 0; layer < shape.layers; ++layer)
    for (uint32_t head = 0; head < shape.kv_heads; ++head) {
      compare(a.Key(head, layer), b.Key(head, layer), shape.key_dim);
      compare(a.Value(head, layer), b.Value(head, layer), shape.value_dim);
    }
  return worst;
}

class EngineMemoryTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    engine_ = NewEngine();
  }
  void TearDown() override {
    engine_.reset();
    MemoryTest::TearDown();
  }

  // The same model each time; the first one proves itself, later ones find the verdict.
  std::unique_ptr<WatchedEngine> NewEngine(uint32_t context_tokens = 4096) {
    const auto path = WriteRandomModel({}, folder_);
    EXPECT_TRUE(path) << path.error().message;
    auto engine = LlamaEngine::Load(
        {.model_path = *path, .threads = 1, .context_tokens = context_tokens, .cache_folder = folder_ / "verdicts"});
    EXPECT_TRUE(engine) << engine.error().message;
    EXPECT_TRUE((*engine)->info().can_inject) << (*engine)->info().text_mode_reason;
    return std::make_unique<WatchedEngine>(std::move(*engine));
  }
  FactEncoder Encoder(const WindowSpec& window = {}) {
    const PromptLayout layout = PromptLayout::Make(engine_->tokenizer(), engine_->chat_template());
    header_ = layout.header();
    header_.resize(std::min<size_t>(header_.size(), 45));  // as long as where words are one token each
    auto made = FactEncoder::Make(memory(), *engine_, header_, window);
    EXPECT_TRUE(made) << made.error().message;
    return *made;
  }
  // Expects success.
  EncodeStats Run(FactEncoder& encoder, std::string_view ns, EncodeWhat what = EncodeWhat::kQueued,
                  const EncodeControl& control = {}) {
    const auto stats = encoder.Run(Space(ns), what, control);
    EXPECT_TRUE(stats) << stats.error().message;
    return stats.value_or(EncodeStats());
  }

  // Facts "f0", "f1", … of about 22 tokens, of which no two have a number in common; queued for now.
  static std::string FactText(size_t i) {
    return "On day " + std::to_string(i) + " we saw bird number " + std::to_string(1000 + i);
  }
  void RememberMany(std::string_view ns, size_t first, size_t count) {
    std::vector<FactInput> facts;
    for (size_t i = first; i < first + count; ++i) facts.push_back(Given(FactText(i), "f" + std::to_string(i)));
    RememberNow(ns, facts);
  }
  void RememberNow(std::string_view ns, const std::vector<FactInput>& facts) {
    const auto added = memory().Remember(ns, facts, {.idempotency_key = {}, .encode_delay_us = 0});
    ASSERT_TRUE(added) << added.error().message;
  }

  // Usable rows by fact id.
  std::map<std::string, KvRow> Rows(std::string_view ns) {
    const NamespaceInfo space = Space(ns);
    const auto rows = memory().catalog().UsableRecords(space.id, engine_->info().model_key, {});
    EXPECT_TRUE(rows) << rows.error().message;
    std::map<std::string, KvRow> by_id;
    if (!rows) return by_id;
    std::vector<FactSeq> seqs;
    for (const KvRow& row : *rows) seqs.push_back(row.fact);
    const std::vector<FactRow> facts = memory().catalog().GetFacts(space.id, seqs).value();
    EXPECT_EQ(facts.size(), rows->size());
    for (size_t i = 0; i < facts.size(); ++i) by_id[facts[i].id] = rows->at(i);
    return by_id;
  }
  RecordHandle RecordOf(std::string_view ns, std::string_view id) {
    const FactRow fact = Fact(ns, id);
    const Tokens tokens = engine_->tokenizer().Text(FactPromptText(fact.text, fact.date));
    const WantedRecord wanted{fact.seq, fact.id, fact.version, tokens};
    const auto loaded =
        memory().vault().Load(Space(ns), engine_->info().model_key, engine_->info().kv_shape, {&wanted, 1});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? loaded->at(0) : nullptr;
  }
  QueueCounts Queue() { return memory().catalog().CountQueue().value(); }

  std::unique_ptr<WatchedEngine> engine_;
  Tokens header_;  // of the last Encoder()
};

}  // namespace inferscale
