// Random histories against the oracle: after each step the usable rows, the queue, the erase list and the facts are
// exactly the oracle's, and no usable row has seen a text that is deleted, changed, expired or superseded.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "catalog/catalog_oracle_test_util.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using Encoded = CatalogOracle::Record;

class SqliteModelTest : public CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    spaces_ = {ns_, Name("other")};
  }

  uint64_t Dice(uint64_t sides) { return random_() % sides; }
  std::string Text() {  // few enough that some come twice
    return "text number " + std::to_string(Dice(400));
  }
  FactContent AnyContent() {
    if (Dice(8) > 0) return ContentOf(Text());
    NewFact fact = LongFact("", Dice(2) == 0 ? std::vector{Text(), Text()} : std::vector{Text(), Text(), Text()});
    return fact.content;
  }
  // A fact of the namespace, 0 when there is none. parts: parts too, and no parents.
  FactSeq AnyFact(NamespaceId ns, bool parts) {
    std::vector<FactSeq> all;
    for (const auto& [seq, fact] : oracle_.facts)
      if (fact.ns == ns && fact.kind != (parts ? FactKind::kParent : FactKind::kPart)) all.push_back(seq);
    return all.empty() ? 0 : all[Dice(all.size())];
  }
  std::string AnyId(NamespaceId ns) {
    const FactSeq seq = AnyFact(ns, false);
    return seq == 0 ? "" : oracle_.facts.at(seq).id;
  }
  RecordSeq AnyRecord() {
    if (all_.empty()) return 0;
    auto at = all_.rbegin();
    std::advance(at, Dice(std::min<size_t>(all_.size(), 40)));
    return at->first;
  }

  void AddSome(NamespaceId ns);
  void UpdateOne(NamespaceId ns);
  void DeleteSome(NamespaceId ns);
  void ClearOne(size_t space);
  void SupersedeOne(NamespaceId ns);
  void ExpireSome();
  void PutSomeTurns(NamespaceId ns);
  void Encode(NamespaceId ns);
  void PutPending();
  void DropSome();
  void MoveSome();
  void Step();
  void Check(NamespaceId ns);
  void CheckRows(NamespaceId ns);

  CatalogOracle oracle_;
  std::map<RecordSeq, Encoded> all_;  // every record there ever was
  std::vector<Encoded> pending_;      // encoded, on their way
  std::vector<NamespaceId> spaces_;
  std::mt19937_64 random_{20231114};
  uint64_t next_id_ = 0, stored_ = 0, refused_ = 0;
};

void SqliteModelTest::AddSome(NamespaceId ns) {
  std::vector<NewFact> facts(1 + Dice(3));
  for (NewFact& fact : facts) {
    fact.id = Dice(30) == 0 ? AnyId(ns) : "f" + std::to_string(next_id_++);
    fact.content = AnyContent();
    if (Dice(6) == 0) fact.expires_us = now_ + 1 + static_cast<Micros>(Dice(40));
    if (Dice(3) == 0) fact.turn = "t" + std::to_string(Dice(20));
    if (Dice(4) == 0) fact.supersede_key = "key" + std::to_string(Dice(4));
    if (Dice(6) == 0) fact.supersedes.push_back(AnyId(ns));
    if (!fact.supersedes.empty() && (fact.supersedes[0].empty() || fact.supersedes[0] == fact.id))
      fact.supersedes.clear();
  }
  const auto added = catalog().AddFacts(ns, facts, {});
  ASSERT_TRUE(added) << added.error().message;
  for (size_t i = 0; i < facts.size(); ++i) {
    ASSERT_EQ(added->facts[i].outcome, oracle_.OutcomeOf(ns, facts[i], now_));
    if (added->facts[i].outcome == AddOutcome::kAdded) oracle_.Add(ns, facts[i], added->facts[i]);
  }
}

void SqliteModelTest::UpdateOne(NamespaceId ns) {
  const FactSeq fact = AnyFact(ns, false);
  if (fact == 0) return;
  FactUpdate update;
  if (Dice(4) > 0) update.content = AnyContent();
  if (Dice(4) == 0)
    update.expires_us = Dice(2) == 0 ? std::optional<Micros>() : now_ + 1 + static_cast<Micros>(Dice(40));
  if (Dice(4) == 0) update.metadata = "{}";
  const auto updated = catalog().UpdateFact(ns, oracle_.facts.at(fact).id, update);
  NewFact same;
  if (update.content) same.content = *update.content;
  if (update.content && same.content.text != oracle_.facts.at(fact).text &&
      oracle_.OutcomeOf(ns, same, now_) == AddOutcome::kDuplicate) {
    ASSERT_EQ(CodeOf(updated), ErrorCode::kInvalidArgument) << "another fact has this text";
    return;
  }
  ASSERT_TRUE(updated) << updated.error().message;
  oracle_.Update(fact, update, updated->parts);
  ASSERT_EQ(updated->version, oracle_.facts.at(fact).version);
}

void SqliteModelTest::DeleteSome(NamespaceId ns) {
  std::vector<std::string> ids;
  std::set<FactSeq> whole;
  for (uint64_t i = 1 + Dice(2); i > 0; --i) {
    const FactSeq fact = AnyFact(ns, false);
    if (fact == 0 || !whole.insert(fact).second) continue;
    ids.push_back(oracle_.facts.at(fact).id);
  }
  const auto deleted = catalog().DeleteFacts(ns, ids);
  ASSERT_TRUE(deleted) << deleted.error().message;
  ASSERT_EQ(deleted->deleted, whole.size());
  oracle_.Delete(whole);
}

void SqliteModelTest::ClearOne(size_t space) {
  const NamespaceId ns = spaces_[space];
  const bool with_name = Dice(2) == 0;
  const auto deleted = with_name ? catalog().DeleteNamespace(ns) : catalog().DeleteAllFacts(ns);
  ASSERT_TRUE(deleted) << deleted.error().message;
  oracle_.Clear(ns);
  if (with_name) spaces_[space] = Name("again" + std::to_string(next_id_++));
}

void SqliteModelTest::SupersedeOne(NamespaceId ns) {
  const FactSeq old = AnyFact(ns, false), by = AnyFact(ns, false);
  if (old == by) return;
  const auto change = catalog().Supersede(ns, oracle_.facts.at(old).id, oracle_.facts.at(by).id);
  ASSERT_TRUE(change) << change.error().message;
  oracle_.Supersede(old, oracle_.facts.at(by).id);
}

void SqliteModelTest::ExpireSome() {
  now_ += static_cast<Micros>(Dice(30));
  const std::set<FactSeq> due = oracle_.Due(now_);
  const auto expired = catalog().ExpireDue(1000);
  ASSERT_TRUE(expired) << expired.error().message;
  ASSERT_EQ(expired->deleted, due.size());
  oracle_.Delete(due);
}

void SqliteModelTest::PutSomeTurns(NamespaceId ns) {
  std::vector<NewTurn> turns(1 + Dice(2));
  for (NewTurn& turn : turns) turn = {"t" + std::to_string(Dice(20)), Dice(50), "Ada", Text(), {}};
  const auto put = catalog().PutTurns(ns, turns);
  ASSERT_TRUE(put) << put.error().message;
  for (size_t i = 0; i < turns.size(); ++i) oracle_.PutTurn(ns, put->turns[i], turns[i]);
}

// Reads texts as an engine would, which takes a while: the record comes later.
void SqliteModelTest::Encode(NamespaceId ns) {
  const FactSeq own = AnyFact(ns, true);
  if (own == 0) return;
  Encoded record;
  KvRow& row = record.row;
  row.record = catalog().ReserveRecords(1).value();
  row.name_space = ns;
  row.fact = own;
  row.content_version = oracle_.facts.at(own).version;
  row.model_key = Dice(8) == 0 ? ModelKey{3, 4} : kTestModel;
  row.n_tokens = 5;
  row.location = {1, row.record * 1000, 100};
  record.texts.push_back(oracle_.facts.at(own).text);
  for (uint64_t i = Dice(5); i > 0; --i) {
    const FactSeq seen = AnyFact(ns, true);
    const CatalogOracle::Fact& fact = oracle_.facts.at(seen);
    if (Dice(20) > 0 && (!fact.superseded_by.empty() || fact.expires)) continue;  // a planner knows, mostly
    row.saw.push_back({SeenKind::kFact, seen, fact.version});
    record.texts.push_back(fact.text);
  }
  for (const auto& [seq, turn] : oracle_.turns) {
    if (turn.ns != ns || Dice(8) > 0) continue;
    row.saw.push_back({SeenKind::kTurn, seq, turn.version});
    record.texts.push_back(turn.text);
  }
  all_[row.record] = record;
  pending_.push_back(record);
}

void SqliteModelTest::PutPending() {
  std::vector<KvRow> rows;
  for (const Encoded& record : pending_) rows.push_back(record.row);
  const auto put = catalog().PutRecords(rows);
  ASSERT_TRUE(put) << put.error().message;
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool stored = oracle_.Put(pending_[i], now_);
    ASSERT_EQ(put->stored[i], stored);
    ++(stored ? stored_ : refused_);
  }
  pending_.clear();
}

void SqliteModelTest::DropSome() {
  const RecordSeq record = AnyRecord();
  const bool requeue = Dice(2) == 0;
  ASSERT_TRUE(catalog().DropRecords({&record, 1}, requeue));
  oracle_.Drop(record, requeue);
}

void SqliteModelTest::MoveSome() {
  const RecordSeq record = AnyRecord();
  const std::pair<RecordSeq, KvLocation> move = {record, {2 + Dice(3), next_id_++ * 1000, 100}};
  ASSERT_TRUE(catalog().MoveRecords({&move, 1}));
  oracle_.Move(record, move.second);
}

void SqliteModelTest::Step() {
  const size_t space = Dice(4) == 0 ? 1 : 0;
  const NamespaceId ns = spaces_[space];
  const uint64_t dice = Dice(1000);
  if (Dice(50) == 0) now_ += 20;  // what expires stays until it is collected
  if (dice < 140) return AddSome(ns);
  if (dice < 240) return UpdateOne(ns);
  if (dice < 300) return DeleteSome(ns);
  if (dice < 303) return ClearOne(space);
  if (dice < 330) return SupersedeOne(ns);
  if (dice < 360) return ExpireSome();
  if (dice < 400) return PutSomeTurns(ns);
  if (dice < 700) return Encode(ns);
  if (dice < 900) return PutPending();
  if (dice < 930) return DropSome();
  if (dice < 995) return MoveSome();
  if (dice < 998) return Open();
  ASSERT_TRUE(catalog().Scrub());
}

void SqliteModelTest::CheckRows(NamespaceId ns) {
  std::vector<RecordSeq> expected;
  for (const auto& [record, each] : oracle_.usable)
    if (each.row.name_space == ns) expected.push_back(record);
  std::vector<RecordSeq> found;
  const auto rows = catalog().RecordsOf(ns, 1'000'000).value();
  for (const KvRow& row : rows) {
    found.push_back(row.record);
    ASSERT_EQ(oracle_.WhyNot(all_.at(row.record)), "") << "record " << row.record;
    ASSERT_EQ(row.saw, all_.at(row.record).row.saw);
    if (!oracle_.usable.contains(row.record)) continue;  // found below
    ASSERT_EQ(row.location, oracle_.usable.at(row.record).row.location);
  }
  ASSERT_EQ(found, expected);
}

void SqliteModelTest::Check(NamespaceId ns) {
  ASSERT_NO_FATAL_FAILURE(CheckRows(ns));
  std::set<FactSeq> queued, expected_queue;
  for (const FactSeq fact : Queued(ns)) queued.insert(fact);
  for (const FactSeq fact : oracle_.queue)
    if (oracle_.facts.at(fact).ns == ns) expected_queue.insert(fact);
  ASSERT_EQ(queued, expected_queue);

  std::multiset<CatalogOracle::Erasure> erasing;
  std::vector<uint64_t> ids;
  const auto pending = catalog().PendingErase(1'000'000).value();
  for (const DeadRecord& dead : pending) {
    erasing.insert({dead.record, dead.location.segment, dead.location.offset});
    ids.push_back(dead.erase_id);
  }
  ASSERT_EQ(erasing, oracle_.erasing);
  ASSERT_TRUE(catalog().ForgetErased(ids));
  oracle_.erasing.clear();

  std::vector<std::string> facts, expected;
  const auto describe = [](const auto& row) {
    return row.id + "@" + std::to_string(row.version) + " " + row.text + " " + row.superseded_by;
  };
  (void)catalog().ScanFacts(ns, {.parents = true}, [&](const ScanRow& row) {
    facts.push_back(describe(row.fact));
    return true;
  });
  for (const auto& [seq, fact] : oracle_.facts)
    if (fact.ns == ns) expected.push_back(describe(fact));
  ASSERT_EQ(facts, expected);
}

TEST_F(SqliteModelTest, NoUsableRowHasSeenWhatIsGone) {
  constexpr int kSteps = 12'000;
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_NO_FATAL_FAILURE(Step());
    for (const NamespaceId ns : spaces_) ASSERT_NO_FATAL_FAILURE(Check(ns));
    if (step % 500 == 0) {
      ASSERT_EQ(Findings(), std::vector<std::string>());
    }
  }
  EXPECT_GT(stored_, 1000u);
  EXPECT_GT(refused_, 100u);
  // Everything that was struck is queued (Check), and all can be usable again.
  ExpireSome();
  for (const NamespaceId ns : spaces_) {
    ASSERT_TRUE(catalog().EnqueueAll(ns));
    for (const FactSeq fact : Queued(ns)) PutRecord(ns, fact, {});
    for (const auto& [seq, fact] : oracle_.facts) {
      if (fact.ns != ns || fact.kind == FactKind::kParent || !fact.superseded_by.empty()) continue;
      EXPECT_EQ(catalog().UsableRecords(ns, kTestModel, {&seq, 1})->size(), 1u) << seq;
    }
  }
}

}  // namespace
}  // namespace inferscale
