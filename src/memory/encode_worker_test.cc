// The background worker: it needs no asking, leaves the engine to answers, and stops when told. Times are compared with
// times of the same run, never with a clock.
#include "memory/encode_worker.h"

#include <condition_variable>
#include <mutex>
#include <optional>

#include "memory/fact_encoder_test_util.h"

namespace inferscale {
namespace {

constexpr double kNever = 1e9;  // milliseconds

class EncodeWorkerTest : public FactEncoderTest {
 protected:
  using Pass = WatchedEngine::Pass;

  EncodeWorkerOptions With(double share, double latency_budget_ms) {
    return {.share = share, .latency_budget_ms = latency_budget_ms, .on_look = [this] {
              const std::lock_guard lock(looked_mutex_);
              ++looks_;
              looked_.notify_all();
            }};
  }
  EncodeWorkerOptions Usual() { return With(0.05, 250); }
  // Asked after each look of the worker. Half a minute: a busy machine may take long, a worker that waits for nothing
  // takes longer.
  bool Eventually(const std::function<bool()>& is) {
    std::unique_lock lock(looked_mutex_);
    return looked_.wait_for(lock, std::chrono::seconds(30), is);
  }
  bool AllEncoded(size_t facts) {
    return Eventually([&] { return Queue().queued == 0 && Rows(kAda).size() == facts; });
  }
  std::vector<Pass> PassesFrom(size_t first) {
    const std::vector<Pass> all = engine_->passes();
    return {all.begin() + static_cast<std::ptrdiff_t>(first), all.end()};
  }

  std::mutex looked_mutex_;
  std::condition_variable looked_;
  size_t looks_ = 0;  // guarded
};

TEST_F(EncodeWorkerTest, EncodesWhatIsDueWithoutBeingAsked) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 30);
  EncodeWorker worker(memory(), encoder, Usual());
  EXPECT_TRUE(AllEncoded(30));
  RememberMany(kAda, 30, 2);  // nobody wakes it
  EXPECT_TRUE(AllEncoded(32));
  EXPECT_TRUE(Eventually([&] { return worker.encoded() == 32; }));
  RememberText(kAda, "not due yet");
  size_t looks = 0;
  Eventually([&] { return (looks = looks_) > 0; });
  worker.Wake();
  EXPECT_TRUE(Eventually([&] { return looks_ > looks + 1; }));
  EXPECT_EQ(Queue().queued, 1u);
}

TEST_F(EncodeWorkerTest, WakeSavesTheWait) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 1);
  EncodeWorker worker(memory(), encoder, Usual());
  ASSERT_TRUE(AllEncoded(1));
  double fastest = kNever;
  for (size_t i = 1; i <= 5; ++i) {  // without it each takes about a second
    const Stopwatch watch;
    RememberMany(kAda, i, 1);
    worker.Wake();
    ASSERT_TRUE(AllEncoded(i + 1));
    fastest = std::min(fastest, watch.Millis());
  }
  EXPECT_LT(fastest, 500);
}

TEST_F(EncodeWorkerTest, TakesItsShareAndNoMoreWhileAnswersAreMade) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 10);
  EncodeWorker worker(memory(), encoder, With(0.02, 1e-6));
  worker.AnswerBegins();
  EXPECT_TRUE(AllEncoded(10)) << "it has a share";
  for (size_t i = 10; i < 15; ++i) {  // each as soon as the one before is there
    RememberMany(kAda, i, 1);
    worker.Wake();
    EXPECT_TRUE(AllEncoded(i + 1));
  }
  const std::vector<Pass> passes = engine_->passes();
  ASSERT_GE(passes.size(), 8u);
  for (size_t i = 1; i + 1 < passes.size(); ++i) {  // the first may have begun before the answer
    const double took = passes[i].ended_ms - passes[i].began_ms, rest = passes[i + 1].began_ms - passes[i].ended_ms;
    EXPECT_GE(rest, 49 * took) << i;
  }
  worker.AnswerEnds();
}

// A pass of 2 ms is followed by half an hour; two answers begin in the first one.
class EncodeWorkerRestTest : public EncodeWorkerTest {
 protected:
  void SetUp() override {
    EncodeWorkerTest::SetUp();
    engine_->BeforePass([this](const CaptureRequest&) -> Status {
      if (begun_.exchange(true)) return {};
      worker_->AnswerBegins();
      worker_->AnswerBegins();
      return {};
    });
    encoder_.emplace(Encoder());
    worker_.emplace(memory(), *encoder_, With(1e-6, 250));
    RememberMany(kAda, 0, 30);
    worker_->Wake();
    ASSERT_TRUE(engine_->WaitForPasses(1));
  }
  void TearDown() override {
    worker_.reset();
    EncodeWorkerTest::TearDown();
  }
  std::atomic<bool> begun_ = false;
  std::optional<FactEncoder> encoder_;
  std::optional<EncodeWorker> worker_;
};

TEST_F(EncodeWorkerRestTest, TheEndOfTheLastAnswerEndsIt) {
  worker_->AnswerEnds();
  worker_->AnswerEnds();
  EXPECT_TRUE(AllEncoded(30));
}

TEST_F(EncodeWorkerRestTest, StopsInTheMiddleOfItAndLosesNothing) {
  worker_->AnswerEnds();  // one is still made
  worker_.reset();
  EXPECT_EQ(engine_->passes().size(), 1u);
  EXPECT_GE(Rows(kAda).size(), 1u);
  ExpectNothingLost(30);
  worker_.emplace(memory(), *encoder_, Usual());
  EXPECT_TRUE(AllEncoded(30));
}

TEST_F(EncodeWorkerTest, TheLatencyBudgetBoundsAPass) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 5);
  {
    EncodeWorker worker(memory(), encoder, With(0.05, 1e-6));
    ASSERT_TRUE(AllEncoded(5));
    for (const Pass& pass : PassesFrom(0)) EXPECT_LE(pass.fresh_tokens, 64u) << "no rate is known yet";
    const size_t first = engine_->passes().size();
    RememberMany(kAda, 5, 10);
    worker.Wake();
    ASSERT_TRUE(AllEncoded(15));
    for (const Pass& pass : PassesFrom(first)) EXPECT_EQ(pass.fresh, 1u);
  }
  RememberMany(kAda, 15, 2);
  EncodeWorker worker(memory(), encoder, With(0.05, kNever));
  ASSERT_TRUE(AllEncoded(17));
  ASSERT_TRUE(Eventually([&] { return worker.encoded() == 2; }));
  const size_t first = engine_->passes().size();
  RememberMany(kAda, 17, 3);
  worker.Wake();
  ASSERT_TRUE(AllEncoded(20));
  EXPECT_EQ(PassesFrom(first).size(), 1u);
}

TEST_F(EncodeWorkerTest, RestsAreNoPartOfTheRate) {
  FactEncoder encoder = Encoder();
  EncodeWorker worker(memory(), encoder, With(0.02, 250));
  worker.AnswerBegins();
  RememberMany(kAda, 0, 6);  // three passes or so, rests between them
  ASSERT_TRUE(AllEncoded(6));
  ASSERT_TRUE(Eventually([&] { return worker.encoded() == 6; }));
  const size_t first = engine_->passes().size();
  ASSERT_GE(first, 2u);
  RememberMany(
      kAda, 6,
      14);  // some 400 tokens: half of what 250 ms compute on a slow machine; with rests counted in, a pass each
  ASSERT_TRUE(AllEncoded(20));
  EXPECT_LE(PassesFrom(first).size(), 2u);
}

TEST_F(EncodeWorkerTest, GoesOnAfterAnError) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 5);
  std::atomic<size_t> tried = 0;
  engine_->BeforePass(
      [&](const CaptureRequest&) -> Status { return ++tried == 1 ? Fail(ErrorCode::kEngine, "not now") : Status(); });
  EncodeWorker worker(memory(), encoder, Usual());
  EXPECT_TRUE(AllEncoded(5));
  EXPECT_EQ(tried, 1 + engine_->passes().size()) << "again after its time, not all the time";
}

TEST_F(EncodeWorkerTest, CollectsExpiredFacts) {
  FactEncoder encoder = Encoder();
  FactInput fleeting = Given("gone soon", "fleeting");
  fleeting.expires_us = NowMicros() + 3'600'000'000;
  RememberNow(kAda, {fleeting, Given("here to stay", "stays")});
  later_ = 2 * 3'600'000'000;
  EncodeWorker worker(memory(), encoder, Usual());
  const NamespaceId ns = Space(kAda).id;
  EXPECT_TRUE(Eventually([&] { return !memory().catalog().GetFact(ns, "fleeting"); }));
  EXPECT_TRUE(AllEncoded(1));
}

TEST_F(EncodeWorkerTest, CompactsTheStore) {
  MemoryOptions options = Options();
  options.kv.disk_bytes = 32u << 20;  // segments of 4 MiB
  Open(options);
  constexpr size_t kRepeat = 300;  // 58 KB
  Fill(kAda, "f", 160, kRepeat);
  for (int i = 0; i < 60; ++i) Forget(kAda, {"f" + std::to_string(i)});
  const uint64_t before = vault().store_stats().file_bytes;
  EXPECT_GT(before, 8u << 20) << "more than the segment that is written to";
  FactEncoder encoder = Encoder();
  EncodeWorker worker(memory(), encoder, Usual());
  EXPECT_TRUE(Eventually([&] { return vault().store_stats().file_bytes < before; }));
  EXPECT_NE(Load(kAda, "f80", kRepeat), nullptr);
}

}  // namespace
}  // namespace inferscale
