// KV rows: what makes them stale, and what becomes of their bytes.
#include <gmock/gmock.h>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

constexpr auto kOtherEncoding = static_cast<KvEncoding>(3);  // the catalog keeps what it is given

// Facts a, b and c; b's record saw a, c's record saw b.
class SqliteKvTest : public CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    a_ = AddText(ns_, "a", "tea"), b_ = AddText(ns_, "b", "milk"), c_ = AddText(ns_, "c", "sugar");
    of_a_ = PutRecord(ns_, a_, {}).record;
    of_b_ = PutRecord(ns_, b_, {a_}).record;
    of_c_ = PutRecord(ns_, c_, {b_}).record;
  }
  static std::vector<RecordSeq> Dead(const Change& change) {
    std::vector<RecordSeq> records;
    for (const DeadRecord& dead : change.dead) records.push_back(dead.record);
    return records;
  }
  FactSeq a_ = 0, b_ = 0, c_ = 0;
  RecordSeq of_a_ = 0, of_b_ = 0, of_c_ = 0;
};

TEST_F(SqliteKvTest, KeepsARowAcrossOpening) {
  KvRow row = Record(ns_, a_, {b_, c_});
  row.encoding = kOtherEncoding;
  row.calibration_id = {5, 6};
  row.saw.push_back(
      {SeenKind::kTurn, catalog().PutTurns(ns_, std::vector<NewTurn>{{"t", 3, "Ada", "hi", {}}})->turns[0], 1});
  const PutRecordsResult put = catalog().PutRecords({&row, 1}).value();
  EXPECT_THAT(put.stored, ElementsAre(true));
  EXPECT_THAT(put.dead, SizeIs(1)) << "the older record of the same fact and model";
  EXPECT_EQ(put.dead.at(0).record, of_a_);
  Open();
  const auto rows = catalog().UsableRecords(ns_, kTestModel, std::vector<FactSeq>{c_, a_, 999}).value();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].fact, c_) << "in the order asked for";
  EXPECT_EQ(rows[1].record, row.record);
  EXPECT_EQ(rows[1].content_version, 1u);
  EXPECT_EQ(rows[1].encoding, kOtherEncoding);
  EXPECT_EQ(rows[1].calibration_id, row.calibration_id);
  EXPECT_EQ(rows[1].window_digest, row.window_digest);
  EXPECT_EQ(rows[1].n_tokens, row.n_tokens);
  EXPECT_EQ(rows[1].location, row.location);
  EXPECT_THAT(catalog().UsableRecords(ns_, kTestModel, {}).value(), SizeIs(3));
  EXPECT_THAT(catalog().UsableRecords(ns_, {7, 7}, {}).value(), IsEmpty()) << "another model";
  EXPECT_THAT(catalog().UsableRecords(Name("other"), kTestModel, std::vector<FactSeq>{a_}).value(), IsEmpty());
}

TEST_F(SqliteKvTest, ARecordTakesItsFactOffTheQueueAndARepeatedCallChangesNothing) {
  EXPECT_THAT(Queued(ns_), IsEmpty());
  const FactSeq d = AddText(ns_, "d", "lemon");
  EXPECT_THAT(Queued(ns_), ElementsAre(d));
  const KvRow row = PutRecord(ns_, d, {});
  EXPECT_THAT(Queued(ns_), IsEmpty());
  const auto again = catalog().PutRecords({&row, 1}).value();
  EXPECT_THAT(again.stored, ElementsAre(true));
  EXPECT_THAT(again.dead, IsEmpty());
  EXPECT_THAT(Erasing(), IsEmpty());
  EXPECT_EQ(catalog().GetNamespace(ns_)->kv_bytes, 4 * 100 + of_a_ + of_b_ + of_c_ + row.record);
}

TEST_F(SqliteKvTest, AnUpdateMakesWhatSawTheFactStale) {
  const Change change = catalog().UpdateFact(ns_, "a", {.content = ContentOf("coffee")})->change;
  EXPECT_THAT(Dead(change), UnorderedElementsAre(of_a_, of_b_));
  EXPECT_THAT(change.requeued, ElementsAre(b_)) << "a itself is queued as updated";
  EXPECT_THAT(Queued(ns_), UnorderedElementsAre(a_, b_));
  EXPECT_THAT(Usable(ns_), ElementsAre(of_c_));
  EXPECT_THAT(Erasing(), UnorderedElementsAre(of_a_, of_b_));
}

TEST_F(SqliteKvTest, WhatIsNoContentMakesNothingStale) {
  EXPECT_THAT(catalog().UpdateFact(ns_, "a", {.content = ContentOf("tea"), .metadata = "{}"})->change.dead, IsEmpty());
  AddText(ns_, "d", "new");
  EXPECT_THAT(Usable(ns_), SizeIs(3));
}

TEST_F(SqliteKvTest, ADeletionMakesWhatSawTheFactStale) {
  const Change change = Delete(ns_, {"a"}).change;
  EXPECT_THAT(Dead(change), UnorderedElementsAre(of_a_, of_b_));
  EXPECT_THAT(change.requeued, ElementsAre(b_));
  EXPECT_THAT(Usable(ns_), ElementsAre(of_c_));
}

TEST_F(SqliteKvTest, ASupersededFactMakesWhatSawItStale) {
  const Change change = catalog().Supersede(ns_, "a", "c").value();
  EXPECT_THAT(Dead(change), UnorderedElementsAre(of_a_, of_b_));
  EXPECT_THAT(change.requeued, ElementsAre(b_)) << "a is not encoded any more";
  EXPECT_THAT(catalog().Supersede(ns_, "a", "b")->dead, IsEmpty()) << "it was hidden already";
}

TEST_F(SqliteKvTest, AnExpiryTakesTheFactOutOfWindowsAndKeepsItsRecord) {
  FactUpdate expiring;
  expiring.expires_us = std::optional<Micros>(kTestStart + kTestDay);
  const Change change = catalog().UpdateFact(ns_, "a", expiring)->change;
  EXPECT_THAT(Dead(change), ElementsAre(of_b_));
  EXPECT_THAT(Usable(ns_), ElementsAre(of_a_, of_c_));
  now_ += kTestDay;
  EXPECT_THAT(Dead(catalog().ExpireDue(10)->change), ElementsAre(of_a_));
}

TEST_F(SqliteKvTest, AChangedTurnMakesWhatSawItStale) {
  const std::vector<NewTurn> first = {{"t1", 0, "Ada", "hello", {}}, {"t2", 1, "Bob", "hi", {}}};
  const auto turns = catalog().PutTurns(ns_, first)->turns;
  KvRow row = Record(ns_, a_, {});
  row.saw = {{SeenKind::kTurn, turns[0], 1}};
  EXPECT_THAT(catalog().PutRecords({&row, 1})->stored, ElementsAre(true));
  EXPECT_EQ(catalog().PutTurns(ns_, first)->changed, 0u);
  const std::vector<NewTurn> moved = {{"t1", 9, "Ada", "hello", {}}};
  EXPECT_THAT(catalog().PutTurns(ns_, moved)->change.dead, IsEmpty()) << "the same words in another place";
  const std::vector<NewTurn> changed = {{"t1", 9, "Ada", "goodbye", {}}};
  EXPECT_THAT(Dead(catalog().PutTurns(ns_, changed)->change), ElementsAre(row.record));
  row.record = catalog().ReserveRecords(1).value();
  EXPECT_THAT(catalog().PutRecords({&row, 1})->stored, ElementsAre(false)) << "it saw version 1";
}

// What was encoded while something changed arrives too late.
TEST_F(SqliteKvTest, ARecordThatIsStaleWhenItArrivesIsNotStored) {
  AddText(ns_, "d", "late");
  const auto refuses = [&](KvRow row, const char* why) {
    const PutRecordsResult put = catalog().PutRecords({&row, 1}).value();
    EXPECT_THAT(put.stored, ElementsAre(false)) << why;
    ASSERT_THAT(put.dead, SizeIs(1)) << why;
    EXPECT_EQ(put.dead[0].location, row.location) << why;
  };
  const size_t usable = Usable(ns_).size();
  KvRow row = Record(ns_, b_, {a_});
  row.saw[0].version = 2;
  refuses(row, "another version of what it saw");
  row = Record(ns_, b_, {a_});
  row.content_version = 2;
  refuses(row, "another version of its own fact");
  row = Record(ns_, b_, {});
  row.saw = {{SeenKind::kFact, 999, 1}};
  refuses(row, "it saw what is not there");
  row.saw = {{SeenKind::kTurn, 999, 1}};
  refuses(row, "it saw a turn that is not there");
  row = Record(Name("other"), b_, {});
  row.content_version = 1;
  refuses(row, "a fact of another namespace");
  row.name_space = 999;
  refuses(row, "a namespace that is not there");
  EXPECT_THAT(Usable(ns_), SizeIs(usable));
  EXPECT_THAT(Erasing(), SizeIs(6));
}

TEST_F(SqliteKvTest, NothingSeesAnExpiringOrSupersededFactOrALongOne) {
  NewFact expiring = FactOf("e", "soon gone");
  expiring.expires_us = kTestStart + 10;
  const AddedFact long_one = Add(ns_, {LongFact("l", {"x", "y"})}).facts[0];
  const FactSeq e = Add(ns_, {expiring}).facts[0].seq;
  ASSERT_TRUE(catalog().Supersede(ns_, "a", "c"));
  for (const FactSeq seen : {e, a_, long_one.seq}) {
    const KvRow row = Record(ns_, b_, {seen});
    EXPECT_THAT(catalog().PutRecords({&row, 1})->stored, ElementsAre(false)) << seen;
  }
  for (const FactSeq own : {a_, long_one.seq}) {
    const KvRow row = Record(ns_, own, {});
    EXPECT_THAT(catalog().PutRecords({&row, 1})->stored, ElementsAre(false)) << own;
  }
  PutRecord(ns_, e, {b_});
  PutRecord(ns_, long_one.parts[1], {long_one.parts[0]});
  now_ = kTestStart + 10;
  const KvRow row = Record(ns_, e, {});
  EXPECT_THAT(catalog().PutRecords({&row, 1})->stored, ElementsAre(false)) << "expired, though not collected";
}

TEST_F(SqliteKvTest, RecordsAreDroppedMovedAndScanned) {
  EXPECT_THAT(catalog().DropRecords(std::vector<RecordSeq>{of_a_, 999}, true)->requeued, ElementsAre(a_));
  EXPECT_THAT(catalog().DropRecords(std::vector<RecordSeq>{of_b_}, false)->requeued, IsEmpty());
  EXPECT_THAT(Queued(ns_), ElementsAre(a_));
  const KvLocation to{7, 4096, 100 + of_c_};
  const std::vector<std::pair<RecordSeq, KvLocation>> moves = {{of_c_, to}, {of_a_, {7, 8192, 100 + of_a_}}};
  const auto dead = catalog().MoveRecords(moves).value();
  ASSERT_THAT(dead, SizeIs(1)) << "a was dropped before it was moved";
  EXPECT_EQ(dead[0].location, (KvLocation{7, 8192, 100 + of_a_}));
  std::vector<KvRow> rows;
  ASSERT_TRUE(catalog().ScanRecords([&](const KvRow& row) { return rows.push_back(row), true; }));
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].location, to);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(SqliteKvTest, TheEraseListOutlivesARestartUntilItIsForgotten) {
  Delete(ns_, {"a"});
  (void)catalog().DeleteNamespace(ns_);
  Open();
  const auto pending = catalog().PendingErase(10).value();
  ASSERT_THAT(pending, SizeIs(3));
  EXPECT_THAT(Erasing(), UnorderedElementsAre(of_a_, of_b_, of_c_));
  for (const DeadRecord& dead : pending)
    EXPECT_EQ(dead.location, (KvLocation{1, dead.record * 1000, 100 + dead.record}));
  ASSERT_TRUE(catalog().ForgetErased(std::vector<uint64_t>{pending[0].erase_id, pending[2].erase_id}));
  EXPECT_THAT(Erasing(), ElementsAre(pending[1].record));
  EXPECT_THAT(catalog().PendingErase(0).value(), IsEmpty());
}

TEST_F(SqliteKvTest, RecordIdsAreNeverReused) {
  RecordSeq last = catalog().ReserveRecords(10).value() + 9;
  EXPECT_EQ(catalog().ReserveRecords(5).value(), last + 1);
  Open();
  const RecordSeq after = catalog().ReserveRecords(limits::kFactsPerBatch).value();
  EXPECT_GT(after, last + 5);
  EXPECT_GE(catalog().ReserveRecords(1).value(), after + limits::kFactsPerBatch);
  EXPECT_EQ(CodeOf(catalog().ReserveRecords(limits::kFactsPerBatch + 1)), ErrorCode::kTooLarge);
}

TEST_F(SqliteKvTest, TheNamespaceUsedLeastRecentlyIsEvictedFirst) {
  const NamespaceId other = Name("other");
  Name("empty");
  PutRecord(other, AddText(other, "x", "text"), {});
  now_ += 5;
  catalog().Touch(ns_);
  const auto first = catalog().EvictionCandidates(10).value();
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].id, other);
  now_ += 5;
  catalog().Touch(other);
  EXPECT_EQ(catalog().EvictionCandidates(1)->at(0).id, ns_);
  Open();
  EXPECT_EQ(catalog().GetNamespace(other)->last_active_us, kTestStart + 10) << "written on closing";
}

TEST_F(SqliteKvTest, CountsLiveFactsThatHaveNoKvAndWaitForNone) {
  const NamespaceId other = Name("other");
  const FactSeq x = AddText(other, "x", "text");  // queued, as all that is new
  const auto count = [&](std::optional<NamespaceId> ns) { return catalog().CountWithoutKv(ns, kTestModel).value(); };
  EXPECT_EQ(count(std::nullopt), 0u);
  ASSERT_TRUE(catalog().DropRecords(std::vector<RecordSeq>{of_a_, of_b_, of_c_}, /*requeue=*/false));
  EXPECT_EQ(count(ns_), 3u);
  EXPECT_EQ(count(other), 0u);
  ASSERT_TRUE(catalog().Dequeue(std::vector<FactSeq>{x}));
  EXPECT_EQ(count(other), 1u);
  EXPECT_EQ(count(std::nullopt), 4u);
  ASSERT_TRUE(catalog().Enqueue(std::vector<FactSeq>{a_}, 0, kTestStart));
  EXPECT_EQ(count(ns_), 2u) << "queued";
  ASSERT_TRUE(catalog().Supersede(ns_, "b", "c"));
  EXPECT_EQ(count(ns_), 1u) << "superseded";
  PutRecord(ns_, c_, {});
  EXPECT_EQ(count(ns_), 0u);
  EXPECT_EQ(catalog().CountWithoutKv(ns_, {7, 7}).value(), 1u) << "another model";
  ASSERT_TRUE(catalog().UpdateFact(ns_, "c", {.expires_us = now_ + 5}));
  now_ += 6;
  EXPECT_EQ(catalog().CountWithoutKv(ns_, {7, 7}).value(), 0u) << "expired";
}

TEST_F(SqliteKvTest, RefusesRowsThatCannotBe) {
  KvRow row = Record(ns_, a_, {});
  row.location.bytes = 0;
  EXPECT_EQ(CodeOf(catalog().PutRecords({&row, 1})), ErrorCode::kInvalidArgument);
  row = Record(ns_, a_, {});
  row.record = 0;
  EXPECT_EQ(CodeOf(catalog().PutRecords({&row, 1})), ErrorCode::kInvalidArgument);
  row = Record(ns_, a_, {});
  row.saw.assign(limits::kSeenPerRecord + 1, {SeenKind::kFact, b_, 1});
  EXPECT_EQ(CodeOf(catalog().PutRecords({&row, 1})), ErrorCode::kTooLarge);
  EXPECT_THAT(Usable(ns_), SizeIs(3));
}

}  // namespace
}  // namespace inferscale
