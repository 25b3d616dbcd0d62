// The fact encoder on a durable memory with the embedded engine: what each record has seen, and what it costs to keep
// them up to date.
#include "memory/fact_encoder.h"

#include <gmock/gmock.h>

#include "memory/fact_encoder_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;
using testing::IsEmpty;

double Ratio(const EncodeStats& stats) {
  return static_cast<double>(stats.computed_tokens) / static_cast<double>(stats.fact_tokens);
}

TEST_F(FactEncoderTest, RunsOfAnImportSeeTheirAnchorAndTheMembersBefore) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 60);
  const EncodeStats stats = Run(encoder, kAda);
  EXPECT_EQ(stats.encoded, 60u);
  EXPECT_EQ(stats.failed, 0u);
  EXPECT_EQ(engine_->passes().size(), 3u) << "one for each run";
  // Two of three runs compute an anchor as long as themselves, each a header: (3 + 2) / 3 of the facts' tokens.
  const double headers = 3.0 * static_cast<double>(header_.size()) / static_cast<double>(stats.fact_tokens);
  EXPECT_NEAR(Ratio(stats), 5.0 / 3.0 + headers, 0.02);
  EXPECT_LE(Ratio(stats), 2.0);
  RecordProperty("computed_per_fact_token", std::to_string(Ratio(stats)));

  const auto rows = Rows(kAda);
  ASSERT_EQ(rows.size(), 60u);
  for (size_t i = 0; i < 60; ++i) {
    const size_t run = i / 20 * 20;
    EXPECT_THAT(rows.at(Id(i)).saw, ElementsAreArray(SeenOf(Ids(run == 0 ? 0 : run - 20, i)))) << i;
    const RecordHandle record = RecordOf(kAda, Id(i));
    ASSERT_NE(record, nullptr) << i;
    EXPECT_EQ(record->key.window_digest, DigestOf(Ids(run == 0 ? 0 : run - 20, i))) << i;
  }
  EXPECT_EQ(Queue().queued, 0u);
  EXPECT_EQ(Run(encoder, kAda).encoded, 0u);
}

TEST_F(FactEncoderTest, OneFactAtATimeCostsAsMuchWhileTheStemsAreWarm) {
  FactEncoder encoder = Encoder();
  EncodeStats sum;
  for (size_t i = 0; i < 100; ++i) {
    RememberMany(kAda, i, 1);
    const EncodeStats stats = Run(encoder, kAda);
    ASSERT_EQ(stats.encoded, 1u) << i;
    sum.fact_tokens += stats.fact_tokens;
    sum.computed_tokens += stats.computed_tokens;
  }
  EXPECT_LE(Ratio(sum), 2.2);
  EXPECT_GE(Ratio(sum), 1.8) << "four of five runs have an anchor";
  RecordProperty("computed_per_fact_token", std::to_string(Ratio(sum)));
  EXPECT_THAT(Rows(kAda).at("f99").saw, ElementsAreArray(SeenOf(Ids(60, 99))));
}

TEST_F(FactEncoderTest, ProgressCountsWhatWasAskedForAlsoAfterAnEviction) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 30);
  Run(encoder, kAda);
  const NamespaceInfo ns = Space(kAda);
  EXPECT_EQ(CountText(ns), 0u);
  ASSERT_TRUE(memory().vault().Evict(uint64_t{1} << 40, ns.id));
  EXPECT_EQ(CountText(ns), 30u);
  const FactSeq last = Fact(kAda, Id(29)).seq;
  ASSERT_TRUE(memory().catalog().Enqueue({&last, 1}, 1, NowMicros()));
  EXPECT_EQ(CountText(ns), 29u);
  std::vector<std::pair<size_t, size_t>> told;
  EncodeControl control;
  control.progress = [&](size_t done, size_t total) { told.emplace_back(done, total); };
  const EncodeStats stats = encoder.Run(ns, EncodeWhat::kQueued, control).value();
  EXPECT_EQ(stats.encoded, 10u) << "the members of its run in front of it were made again";
  EXPECT_THAT(told, testing::ElementsAre(std::pair<size_t, size_t>(0, 1), std::pair<size_t, size_t>(1, 1)));
  EXPECT_EQ(CountText(ns), 20u);
}

TEST_F(FactEncoderTest, OneFactAtATimeWithANewEngineComputesTheStemEachTime) {
  EncodeStats sum;
  for (size_t i = 0; i < 40; ++i) {
    engine_ = NewEngine();
    FactEncoder encoder = Encoder();
    RememberMany(kAda, i, 1);
    const EncodeStats stats = Run(encoder, kAda);
    ASSERT_EQ(stats.encoded, 1u) << i;
    if (i < 20) continue;  // those have no anchor
    sum.fact_tokens += stats.fact_tokens;
    sum.computed_tokens += stats.computed_tokens;
    EXPECT_EQ(engine_->passes().at(0).members, i - 20) << "members are injected, not computed";
  }
  // Header, 20 facts, and the new one.
  EXPECT_LE(Ratio(sum), 25.0);
  EXPECT_GE(Ratio(sum), 20.0);
  RecordProperty("computed_per_fact_token", std::to_string(Ratio(sum)));
}

TEST_F(FactEncoderTest, ADeletionEncodesTheRestOfItsRunAndTheNextRunAgain) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 80);
  Run(encoder, kAda);
  const auto before = Rows(kAda);
  const FactSeq gone = Fact(kAda, "f25").seq;
  Forget(kAda, {"f25"});
  EXPECT_EQ(Rows(kAda).size(), 45u);
  EXPECT_EQ(Run(encoder, kAda).encoded, 34u) << "14 of its own run, 20 that had it in their anchor";
  const auto after = Rows(kAda);
  EXPECT_EQ(after.size(), 79u);
  EXPECT_EQ(Replaced(before, after), 34u);
  ExpectNobodySaw(gone);
  std::vector<std::string> seen = Ids(0, 25);
  for (const std::string& id : Ids(26, 30)) seen.push_back(id);
  EXPECT_THAT(after.at("f30").saw, ElementsAreArray(SeenOf(seen)));
}

TEST_F(FactEncoderTest, AnUpdatedFactLeavesItsRunAndIsLate) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 60);
  Run(encoder, kAda);
  const auto before = Rows(kAda);
  Memory::Update update;
  update.text = "On day 25 we saw no bird";
  update.encode_delay_us = 0;
  ASSERT_TRUE(memory().UpdateFact(kAda, "f25", update));
  EXPECT_EQ(Run(encoder, kAda).encoded, 35u) << "as when it is deleted, and itself";
  const auto after = Rows(kAda);
  EXPECT_EQ(after.size(), 60u);
  EXPECT_EQ(Replaced(before, after), 35u);
  EXPECT_EQ(after.at("f25").content_version, 2u);
  EXPECT_THAT(after.at("f25").saw, ElementsAreArray(SeenOf(Ids(5, 25)))) << "the 20 before it";
  ExpectNobodySaw(Fact(kAda, "f25").seq);
}

TEST_F(FactEncoderTest, LateFactsEncodeNothingElseAgain) {
  FactEncoder encoder = Encoder();
  RememberMany(kAda, 0, 30);
  Run(encoder, kAda);
  const auto before = Rows(kAda);
  FactInput first = Given("A bird came home", "old"), second = Given("It went again", "older");
  first.date = Date{2001, 5, 8};
  second.date = Date{2001, 5, 9};
  RememberNow(kAda, {first, second});
  EXPECT_EQ(Run(encoder, kAda).encoded, 2u);
  const auto after = Rows(kAda);
  EXPECT_EQ(Replaced(before, after), 0u);
  EXPECT_THAT(after.at("old").saw, IsEmpty());
  EXPECT_THAT(after.at("older").saw, ElementsAreArray(SeenOf({"old"})));
  // A fact in order still follows the last main run.
  RememberMany(kAda, 30, 1);
  EXPECT_EQ(Run(encoder, kAda).encoded, 1u);
  EXPECT_THAT(Rows(kAda).at("f30").saw, ElementsAreArray(SeenOf(Ids(0, 30))));
}

TEST_F(FactEncoderTest, OnePassExtensionAndOneByOneMakeTheSameRecords) {
  const std::string all = "user:all", one = "user:one", steps = "user:steps", cut = "user:cut", none = "user:none";
  FactEncoder encoder = Encoder();
  RememberMany(all, 0, 30);
  Run(encoder, all);
  for (size_t i = 0; i < 30; ++i) {
    RememberMany(one, i, 1);
    Run(encoder, one);
  }
  for (const auto& [first, count] : {std::pair{0, 7}, {7, 16}, {23, 7}}) {  // across the end of a run
    RememberMany(steps, static_cast<size_t>(first), static_cast<size_t>(count));
    Run(encoder, steps);
  }
  RememberMany(cut, 0, 30);
  EncodeControl control;
  control.pass_tokens = 64;
  Run(encoder, cut, EncodeWhat::kQueued, control);
  FactEncoder without = Encoder({.kind = WindowKind::kNone});
  RememberMany(none, 0, 30);
  Run(without, none);

  double other = 1;
  for (size_t i = 0; i < 30; ++i) {
    const RecordHandle record = RecordOf(all, Id(i));
    ASSERT_NE(record, nullptr) << i;
    for (const std::string& ns : {one, steps, cut}) {
      const RecordHandle same = RecordOf(ns, Id(i));
      ASSERT_NE(same, nullptr) << ns << i;
      EXPECT_EQ(same->key.token_ids, record->key.token_ids);
      EXPECT_EQ(same->key.window_digest, record->key.window_digest) << ns << i;
      EXPECT_GE(WorstTokenCosine(record->payload, same->payload), 0.9999) << ns << i;
    }
    other = std::min(other, WorstTokenCosine(record->payload, RecordOf(none, Id(i))->payload));
  }
  EXPECT_LT(other, 0.99) << "records that saw nothing are others, or this test proves nothing";
}

TEST_F(FactEncoderTest, WhenNamespacesAreDue) {
  FactEncoder encoder = Encoder();
  const auto later = [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) RememberText(kAda, FactText(i), Id(i));
  };
  const auto due = [&] { return Run(encoder, kAda, EncodeWhat::kDue).encoded; };
  later(0, 5);
  EXPECT_EQ(due(), 0u) << "more may come";
  later(5, 15);
  EXPECT_EQ(due(), 20u) << "a full run";
  later(20, 5);
  EXPECT_EQ(due(), 0u);
  const FactSeq wanted = Fact(kAda, "f22").seq;
  ASSERT_TRUE(memory().catalog().Enqueue({&wanted, 1}, 1, NowMicros()));
  EXPECT_EQ(due(), 5u) << "one was recalled without a record";
  RememberMany(kAda, 25, 2);
  EXPECT_EQ(due(), 2u) << "nothing new for the delay";
  EXPECT_EQ(due(), 0u);
  EXPECT_EQ(Run(encoder, kAda, EncodeWhat::kAll).encoded, 27u);
}

TEST_F(FactEncoderTest, WindowsOfPrecedingFactsAndNone) {
  FactEncoder facts = Encoder({.kind = WindowKind::kFacts, .count = 5});
  FactInput fleeting = Given("Only today: no bird", "fleeting");
  fleeting.expires_us = NowMicros() + 3'600'000'000;
  RememberMany(kAda, 0, 6);
  RememberNow(kAda, {fleeting});
  RememberMany(kAda, 6, 6);
  EXPECT_EQ(Run(facts, kAda).encoded, 13u);
  for (size_t i = 0; i < 12; ++i)
    EXPECT_THAT(Rows(kAda).at(Id(i)).saw, ElementsAreArray(SeenOf(Ids(i < 5 ? 0 : i - 5, i)))) << i;
  EXPECT_THAT(Rows(kAda).at("fleeting").saw, IsEmpty());

  FactEncoder none = Encoder({.kind = WindowKind::kNone});
  EXPECT_EQ(Run(none, kAda, EncodeWhat::kAll).encoded, 13u);
  for (const auto& [id, row] : Rows(kAda)) EXPECT_THAT(row.saw, IsEmpty()) << id;

  FactEncoder anchored = Encoder();
  EXPECT_EQ(Run(anchored, kAda, EncodeWhat::kAll).encoded, 13u);
  EXPECT_THAT(Rows(kAda).at("f11").saw, ElementsAreArray(SeenOf(Ids(0, 11))));
  EXPECT_THAT(Rows(kAda).at("fleeting").saw, IsEmpty());
  EXPECT_FALSE(FactEncoder::Make(memory(), *engine_, {}, {.kind = WindowKind::kNear}));
}

TEST_F(FactEncoderTest, WindowsOfTurnsAreThoseBeforeTheSource) {
  std::vector<NewTurn> turns;
  for (const uint64_t ordinal : {0, 1, 2, 3, 4, 30, 31, 32})
    turns.push_back({"t" + std::to_string(ordinal), ordinal, "Ada", "I saw bird " + std::to_string(ordinal), {}});
  ASSERT_TRUE(memory().PutTurns(kAda, turns));
  std::vector<FactInput> facts;
  for (const char* turn : {"t0", "t2", "t4", "t31", "t32", ""}) {
    facts.push_back(Given("said in " + std::string(turn), "of" + std::string(turn)));
    facts.back().turn = turn;
  }
  RememberNow(kAda, facts);
  FactEncoder encoder = Encoder({.kind = WindowKind::kTurns, .count = 3});
  EXPECT_EQ(Run(encoder, kAda).encoded, 6u);
  const auto saw = [&](const std::string& id) {
    std::vector<std::string> ids;
    const auto rows = Rows(kAda);
    for (const Seen& seen : rows.at(id).saw) {
      EXPECT_EQ(seen.kind, SeenKind::kTurn);
      for (const NewTurn& turn : turns)
        if (memory().catalog().FindTurn(Space(kAda).id, turn.id)->seq == seen.seq) ids.push_back(turn.id);
    }
    return ids;
  };
  EXPECT_THAT(saw("oft0"), IsEmpty());
  EXPECT_THAT(saw("oft2"), ElementsAre("t0", "t1"));
  EXPECT_THAT(saw("oft4"), ElementsAre("t1", "t2", "t3"));
  EXPECT_THAT(saw("oft31"), ElementsAre("t3", "t4", "t30")) << "across a gap";
  EXPECT_THAT(saw("oft32"), ElementsAre("t4", "t30", "t31"));
  EXPECT_THAT(saw("of"), IsEmpty());
}

}  // namespace
}  // namespace inferscale
