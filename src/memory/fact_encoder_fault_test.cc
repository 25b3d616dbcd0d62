// Errors, stops and changes while facts are encoded: nothing is lost, and nothing stale may be used.
#include <gmock/gmock.h>

#include <thread>

#include "memory/fact_encoder.h"
#include "memory/fact_encoder_test_util.h"

namespace inferscale {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(FactEncoderTest, StopsBeforeAnyPassAndGoesOnLater) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 45);
  size_t passes = 0, encoded = 0, largest = 0;
  for (size_t stop_after = 0; encoded < 45; ++stop_after) {
    ASSERT_LT(stop_after, 45u) << "no progress";
    size_t asked = 0;
    EncodeControl control;
    control.pass_tokens = 120;
    control.go_on = [&] { return asked++ <= stop_after % 3; };
    encoded += Run(encoder, kAda, EncodeWhat::kQueued, control).encoded;
    ExpectNothingLost(45);
    for (passes = 0; const WatchedEngine::Pass& pass : engine_->passes()) {
      ++passes;
      largest = std::max(largest, pass.fresh_tokens);
    }
  }
  EXPECT_EQ(Rows(kAda).size(), 45u);
  EXPECT_LE(largest, 120u);
  EXPECT_GE(passes, 9u);
}

TEST_F(FactEncoderTest, AnEnginesErrorIsCountedAndTriedAgainLater) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 30);
  engine_->BeforePass([](const CaptureRequest& request) -> Status {
    return request.fresh.size() == 20 ? Fail(ErrorCode::kEngine, "out of order") : Status();
  });
  for (const uint32_t attempt : {1u, 2u}) {
    const Micros before = NowMicros();
    const EncodeStats stats = Run(encoder, kAda);
    EXPECT_EQ(stats.failed, 20u);
    EXPECT_EQ(stats.encoded, attempt == 1 ? 10u : 0u);
    EXPECT_EQ(stats.last_error, "out of order");
    EXPECT_EQ(Queued().size(), 20u);
    for (const QueueItem& item : Queued()) {
      EXPECT_EQ(item.attempts, attempt);
      EXPECT_GE(item.due_us, before + limits::kEncodeBackoffMicros * attempt);
      EXPECT_THAT(item.last_error, HasSubstr("out of order"));
    }
    ExpectNothingLost(30);
  }
  // A full run of them waits; but each waits for its time.
  EXPECT_EQ(Run(encoder, kAda, EncodeWhat::kDue).failed, 0u);
  EXPECT_EQ(Queued().at(0).attempts, 2u);
  engine_->BeforePass(nullptr);
  EXPECT_EQ(Run(encoder, kAda).encoded, 20u);
  EXPECT_EQ(Queue().failing, 0u);
  EXPECT_EQ(Rows(kAda).size(), 30u);
}

TEST_F(FactEncoderTest, WhatWasMadeBeforeAnErrorIsKept) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 20);
  size_t passes = 0;
  engine_->BeforePass(
      [&](const CaptureRequest&) -> Status { return ++passes == 3 ? Fail(ErrorCode::kEngine, "third") : Status(); });
  EncodeControl control;
  control.pass_tokens = 100;
  const EncodeStats stats = Run(encoder, kAda, EncodeWhat::kQueued, control);
  EXPECT_GE(stats.encoded, 4u);
  EXPECT_EQ(stats.encoded + stats.failed, 20u);
  EXPECT_EQ(Rows(kAda).size(), stats.encoded);
  ExpectNothingLost(20);
  EXPECT_EQ(Run(encoder, kAda).encoded, stats.failed);
}

TEST_F(FactEncoderTest, AFactLongerThanARunHoldsNobodyUp) {
  engine_ = NewEngine(1300);  // a run may have 627 tokens
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 25);
  // Letters without a merge are a token each; from 1,000 on a text is split.
  RememberNow(kAda, {Given(std::string(990, 'y'), "long"), Given(std::string(900, 'x'), "bad")});
  RememberMany(kAda, 25, 5);
  engine_->BeforePass([](const CaptureRequest& request) -> Status {
    const size_t tokens = request.fresh[0].size();
    return tokens > 850 && tokens < 950 ? Fail(ErrorCode::kEngine, "too much") : Status();
  });
  const EncodeStats stats = Run(encoder, kAda);
  EXPECT_EQ(stats.failed, 1u);
  EXPECT_EQ(stats.encoded, 31u);
  EXPECT_EQ(stats.last_error, "too much");
  const auto rows = Rows(kAda);
  EXPECT_FALSE(rows.contains("bad"));
  EXPECT_EQ(Queue().failing, 1u);
  // It leaves its anchor less room than others: what is nearest stays.
  ASSERT_GT(RecordOf(kAda, "long")->tokens(), 627u);
  const std::vector<Seen>& saw = rows.at("long").saw;
  ASSERT_GE(saw.size(), 3u);
  ASSERT_LT(saw.size(), 20u);
  EXPECT_EQ(saw.back().seq, Fact(kAda, "f24").seq);
}

TEST_F(FactEncoderTest, WhatChangesWhileAPassRunsLeavesNothingStale) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 50);
  const FactSeq gone = Fact(kAda, "f5").seq;
  size_t passes = 0;
  engine_->BeforePass([&](const CaptureRequest&) -> Status {  // the run was read, its records are not there yet
    if (++passes > 1) return {};
    std::thread([&] {
      Forget(kAda, {"f5"});
      for (const char* id : {"f8", "f45"}) {
        Memory::Update update;
        update.text = "There was no bird at " + std::string(id);  // two facts never say the same
        EXPECT_TRUE(memory().UpdateFact(kAda, id, update));
      }
      RememberMany(kAda, 50, 3);
    }).join();
    return {};
  });
  const EncodeStats stats = Run(encoder, kAda);
  EXPECT_EQ(passes, 1u) << "the second run's anchor is not what was planned, nor is the third run";
  EXPECT_EQ(stats.encoded, 5u) << "refused records are not counted";
  EXPECT_EQ(stats.failed, 0u);
  const auto rows = Rows(kAda);
  EXPECT_EQ(rows.size(), 5u);
  EXPECT_TRUE(rows.contains("f4"));
  ExpectNothingLost(52);
  for (const QueueItem& item : Queued()) EXPECT_EQ(item.attempts, 0u) << "nothing failed";
  Run(encoder, kAda);
  EXPECT_EQ(Rows(kAda).size(), 52u);
  ExpectNobodySaw(gone);
  EXPECT_EQ(Rows(kAda).at("f8").content_version, 2u);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(FactEncoderTest, CallbacksMayChangeTheMemory) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 60);
  EncodeControl control;
  size_t told = 0;
  control.progress = [&](size_t done, size_t total) {
    EXPECT_LE(done, total);
    EXPECT_EQ(total, 60u);
    if (++told == 2) Forget(kAda, {"f30"});
  };
  size_t asked = 0;
  control.go_on = [&] {
    if (++asked == 1) Forget(kAda, {"f0"});
    return true;
  };
  Run(encoder, kAda, EncodeWhat::kQueued, control);
  EXPECT_GE(told, 2u);
  ExpectNothingLost(58);
  Run(encoder, kAda);
  EXPECT_EQ(Rows(kAda).size(), 58u);
  EXPECT_EQ(Queue().queued, 0u);
}

TEST_F(FactEncoderTest, ANamespaceDeletedWhileAPassRunsIsGone) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 30);
  RememberMany(kBob, 0, 10);
  engine_->BeforePass([&, first = true](const CaptureRequest&) mutable -> Status {
    if (!std::exchange(first, false)) return {};
    EXPECT_TRUE(memory().ForgetNamespace(kAda));
    return {};
  });
  const auto stats = encoder.RunAll(EncodeWhat::kDue, {});
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->encoded, 10u) << "the other one's";
  EXPECT_EQ(Rows(kBob).size(), 10u);
  EXPECT_EQ(memory().Stats()->records, 10u);
  EXPECT_EQ(Queue().queued, 0u);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(FactEncoderTest, AFullStoreIsAnErrorThatBacksOff) {
  MemoryOptions options = Options();
  options.kv.disk_bytes = 8192;  // less than one record
  Open(options);
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 5);
  const auto stats = encoder.Run(Space(kAda), EncodeWhat::kQueued, {});
  ASSERT_FALSE(stats);
  EXPECT_EQ(stats.error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(Queue().failing, 5u);
  EXPECT_EQ(Queue().due, 0u);
  Open();
  FactEncoder again = Encoder();
  EXPECT_EQ(Run(again, kAda).encoded, 5u);
}

TEST_F(FactEncoderTest, AStoreSmallerThanARunKeepsWhatFits) {
  FactEncoder first = Encoder();
  RememberMany(kAda, 0, 1);
  Run(first, kAda);
  const uint64_t bytes = Rows(kAda).begin()->second.location.bytes;
  MemoryOptions options = Options();
  options.kv.disk_bytes = 18 * bytes;  // destroyed records of this tiny model leave a quarter behind until compaction
  Open(options);
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 1, 19);
  const auto stats = encoder.Run(Space(kAda), EncodeWhat::kQueued, {});
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->encoded, 19u);
  EXPECT_EQ(Queue().queued, 0u);
  EXPECT_GT(Rows(kAda).size(), 3u);
  EXPECT_LT(Rows(kAda).size(), 18u);
  EXPECT_TRUE(Rows(kAda).contains(Id(19))) << "the last one made room for itself";
}

}  // namespace
}  // namespace inferscale
