// Random histories against an oracle that knows texts only: no record that may be used has seen one that is gone.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

using testing::IsEmpty;

constexpr Micros kDay = 24ll * 3600 * 1'000'000;

// Every content that a fact or a turn ever had is a life. What is over is never again.
using Life = uint64_t;

struct OracleFact {
  Life life = 0;
  std::map<std::string, std::string> rows;  // what is searched for and encoded: id -> text (its own, or of its parts)
  std::string turn, key;
  bool superseded = false;
  std::optional<Micros> expires_us;
};

struct OracleSpace {
  std::map<std::string, OracleFact> facts;
  std::map<std::string, Life> turns;
};

struct OracleRecord {
  Life own = 0;
  std::set<Life> facts, turns;  // that it saw
};

class MemoryPropertyTest : public MemoryTest {
 protected:
  void SetUp() override {
    MemoryTest::SetUp();
    start_ = NowMicros();
  }
  uint64_t Dice(uint64_t sides) { return random_() % sides; }
  Micros Now() const { return start_ + later_; }  // to half a day
  std::string NewText() {
    const std::string number = std::to_string(next_++);
    if (Dice(10) > 0) return "text " + number + " of " + std::to_string(Dice(20));
    std::string text;  // of two parts or three
    for (uint64_t i = 250 + Dice(250); i > 0; --i) text += "long" + number + "w" + std::to_string(i) + " ";
    return text + "end";
  }
  std::optional<Micros> AnyExpiry() { return Now() + static_cast<Micros>(1 + Dice(6)) * kDay - kDay / 2; }
  std::string AnyId(const OracleSpace& space) {
    if (space.facts.empty()) return "";
    return std::next(space.facts.begin(), static_cast<std::ptrdiff_t>(Dice(space.facts.size())))->first;
  }
  void NoteRows(const std::string& ns, const std::string& id);

  void Add(const std::string& ns);
  void Update(const std::string& ns);
  void Delete(const std::string& ns);
  void DeleteMany(const std::string& ns);
  void Supersede(const std::string& ns);
  void Expire();
  void PutTurns(const std::string& ns);
  void EncodeOne(const std::string& ns);
  void PutPending();
  void Disturb(const std::string& ns);
  void Step();
  void HaveDeleted(OracleSpace& space, const std::vector<std::string>& ids);

  void CheckRecords(const std::string& ns);
  void CheckRecall(const std::string& ns);
  std::string WhyNot(const OracleSpace& space, const OracleFact& fact, const OracleRecord& record) const;

  Micros start_ = 0;
  std::map<std::string, OracleSpace> spaces_ = {{"user:a", {}}, {"user:b", {}}, {"user:c", {}}};
  std::map<Hash128, OracleRecord> records_;  // by their payloads
  struct Pending {
    std::string ns;
    NewRecord record;
  };
  std::vector<Pending> pending_;
  std::mt19937_64 random_{42};
  uint64_t next_ = 1, loaded_ = 0, refused_ = 0;
  std::string touched_;  // by the last step, mostly
};

// The rows of a fact as they are stored now: their texts are the application's words or pieces of them.
void MemoryPropertyTest::NoteRows(const std::string& ns, const std::string& id) {
  OracleFact& fact = spaces_[ns].facts.at(id);
  fact.life = next_++;
  fact.rows.clear();
  const FactRow row = Fact(ns, id);
  const auto parts = memory().catalog().GetParts(Space(ns).id, row.seq).value();
  for (const FactRow& part : parts) fact.rows[part.id] = part.text;
  if (parts.empty()) fact.rows[id] = row.text;
}

void MemoryPropertyTest::Add(const std::string& ns) {
  OracleSpace& space = spaces_[ns];
  std::vector<FactInput> facts(1 + Dice(3));
  for (FactInput& fact : facts) {
    fact = Given(NewText(), "f" + std::to_string(next_++));
    if (Dice(2) == 0) fact.date = Date{2020 + static_cast<int>(Dice(5)), 1 + static_cast<int>(Dice(12)), 3};
    if (Dice(6) == 0) fact.expires_us = AnyExpiry();
    if (Dice(3) == 0) fact.turn = "t" + std::to_string(Dice(15));
    if (Dice(5) == 0) fact.supersede_key = "key" + std::to_string(Dice(3));
    if (Dice(8) == 0 && !space.facts.empty()) fact.supersedes = {AnyId(space)};
  }
  const auto added = Remember(ns, facts);
  for (size_t i = 0; i < facts.size(); ++i) {
    const FactInput& fact = facts[i];
    ASSERT_EQ(added[i].outcome, AddOutcome::kAdded);
    for (const std::string& old : fact.supersedes) space.facts.at(old).superseded = true;
    for (auto& [id, other] : space.facts)
      if (!fact.supersede_key.empty() && other.key == fact.supersede_key) other.superseded = true;
    space.facts[fact.id] = {.turn = fact.turn, .key = fact.supersede_key, .expires_us = fact.expires_us};
  }
  for (const FactInput& fact : facts) NoteRows(ns, fact.id);
}

void MemoryPropertyTest::Update(const std::string& ns) {
  const std::string id = AnyId(spaces_[ns]);
  if (id.empty()) return;
  OracleFact& fact = spaces_[ns].facts.at(id);
  Memory::Update update;
  const uint64_t dice = Dice(5);
  if (dice < 3) update.text = NewText();
  if (dice == 2 || dice == 3) update.date = std::optional<Date>(Date{2019, 1, 1 + static_cast<int>(Dice(28))});
  if (dice == 4) update.expires_us = Dice(2) == 0 ? AnyExpiry() : std::nullopt;
  const auto updated = memory().UpdateFact(ns, id, update);
  ASSERT_TRUE(updated) << updated.error().message;
  if (update.expires_us) fact.expires_us = *update.expires_us;
  if (updated->content_changed) NoteRows(ns, id);
  ASSERT_TRUE(updated->content_changed || !update.text) << "its text is a new one";
}

void MemoryPropertyTest::HaveDeleted(OracleSpace& space, const std::vector<std::string>& ids) {
  std::set<std::string> turns;
  for (const std::string& id : ids) {
    turns.insert(space.facts.at(id).turn);
    space.facts.erase(id);
  }
  for (const std::string& turn : turns) {
    const bool kept = std::any_of(space.facts.begin(), space.facts.end(), [&](const auto& each) {
      return each.second.turn == turn && !each.second.superseded;
    });
    if (!kept) space.turns.erase(turn);
  }
}

void MemoryPropertyTest::Delete(const std::string& ns) {
  std::set<std::string> ids;
  for (uint64_t i = 1 + Dice(2); i > 0; --i) ids.insert(AnyId(spaces_[ns]));
  ids.erase("");
  if (ids.empty()) return;
  const std::vector<std::string> list(ids.begin(), ids.end());
  ASSERT_EQ(Forget(ns, list).deleted, list.size());
  HaveDeleted(spaces_[ns], list);
}

// By a filter, or the whole namespace.
void MemoryPropertyTest::DeleteMany(const std::string& ns) {
  OracleSpace& space = spaces_[ns];
  if (Dice(4) == 0) {
    const auto all = memory().ForgetNamespace(ns);
    ASSERT_TRUE(all || space.facts.empty());
    if (all) {
      ASSERT_EQ(all->deleted, space.facts.size());
    }
    space = {};
    return;
  }
  const std::string turn = "t" + std::to_string(Dice(15));
  std::vector<std::string> ids;
  for (const auto& [id, fact] : space.facts)
    if (fact.turn == turn) ids.push_back(id);
  const auto deleted = memory().ForgetWhere(ns, R"({"turn": ")" + turn + "\"}");
  if (!deleted && space.facts.empty()) return;  // the namespace is not there
  ASSERT_TRUE(deleted) << deleted.error().message;
  ASSERT_EQ(deleted->deleted, ids.size());
  HaveDeleted(space, ids);
}

void MemoryPropertyTest::Supersede(const std::string& ns) {
  const std::string old = AnyId(spaces_[ns]), by = AnyId(spaces_[ns]);
  if (old == by) return;
  ASSERT_TRUE(memory().Supersede(ns, old, by));
  spaces_[ns].facts.at(old).superseded = true;
}

void MemoryPropertyTest::Expire() {
  later_ += kDay;
  uint64_t due = 0;
  for (auto& [ns, space] : spaces_) {
    std::vector<std::string> ids;
    for (const auto& [id, fact] : space.facts)
      if (fact.expires_us && *fact.expires_us <= Now()) ids.push_back(id);
    due += ids.size();
    HaveDeleted(space, ids);
  }
  const auto expired = memory().ForgetExpired();
  ASSERT_TRUE(expired) << expired.error().message;
  ASSERT_EQ(expired->deleted, due);
}

void MemoryPropertyTest::PutTurns(const std::string& ns) {
  const std::vector<NewTurn> turns = {{"t" + std::to_string(Dice(15)), Dice(30), "Ada", NewText(), {}}};
  ASSERT_TRUE(memory().PutTurns(ns, turns));
  spaces_[ns].turns[turns[0].id] = next_++;
}

// Reads what an encoder would; the record arrives later.
void MemoryPropertyTest::EncodeOne(const std::string& ns) {
  OracleSpace& space = spaces_[ns];
  if (space.facts.empty()) return;
  OracleRecord truth;
  Pending pending{ns, {}};
  const auto row_of = [&](const OracleFact& fact) {
    return Fact(ns, std::next(fact.rows.begin(), static_cast<std::ptrdiff_t>(Dice(fact.rows.size())))->first);
  };
  const OracleFact& own = space.facts.at(AnyId(space));
  const FactRow row = row_of(own);
  truth.own = own.life;
  for (uint64_t i = Dice(6); i > 0; --i) {
    const OracleFact& seen = space.facts.at(AnyId(space));
    if (Dice(20) > 0 && (seen.superseded || seen.expires_us)) continue;  // a planner knows, mostly
    const FactRow seen_row = row_of(seen);
    pending.record.saw.push_back({SeenKind::kFact, seen_row.seq, seen_row.version});
    truth.facts.insert(seen.life);
  }
  for (const auto& [id, life] : space.turns) {
    if (Dice(8) > 0) continue;
    const auto turn = memory().catalog().FindTurn(Space(ns).id, id);
    ASSERT_TRUE(turn) << id;
    pending.record.saw.push_back({SeenKind::kTurn, turn->seq, turn->version});
    truth.turns.insert(life);
  }
  pending.record.fact = row.seq;
  pending.record.record = MakeRecord(ns, row, pending.record.saw);
  records_[HashBytes(PayloadOf(*pending.record.record))] = truth;
  pending_.push_back(std::move(pending));
}

void MemoryPropertyTest::PutPending() {
  std::shuffle(pending_.begin(), pending_.end(), random_);
  for (const Pending& pending : pending_) {
    const auto ns = memory().Find(pending.ns);
    if (!ns) continue;  // it was deleted
    const auto put = memory().vault().Put(ns->id, {&pending.record, 1});
    ASSERT_TRUE(put) << put.error().message;
    refused_ += put->at(0) ? 0 : 1;
  }
  pending_.clear();
}

// What happens to records for the store's own reasons.
void MemoryPropertyTest::Disturb(const std::string& ns) {
  const auto info = memory().Find(ns);
  if (!info) return;
  switch (Dice(4)) {
    case 0:
      ASSERT_TRUE(memory().vault().Evict(2000, info->id));
      return;
    case 1:
      ASSERT_TRUE(memory().vault().Compact());
      return;
    case 2: {
      const auto rows = memory().catalog().RecordsOf(info->id, 3).value();
      std::vector<RecordSeq> drop;
      for (const KvRow& row : rows) drop.push_back(row.record);
      const auto change = memory().catalog().DropRecords(drop, true);
      ASSERT_TRUE(change && memory().vault().Destroy(change->dead));
      return;
    }
    default:
      Open();
  }
}

void MemoryPropertyTest::Step() {
  const uint64_t space = Dice(6);
  const std::string ns = space < 3 ? "user:a" : space < 5 ? "user:b" : "user:c";
  touched_ = ns;
  const uint64_t dice = Dice(1000);
  if (dice < 130) return Add(ns);
  if (dice < 240) return Update(ns);
  if (dice < 300) return Delete(ns);
  if (dice < 306) return DeleteMany(ns);
  if (dice < 340) return Supersede(ns);
  if (dice < 360) return Expire();
  if (dice < 410) return PutTurns(ns);
  if (dice < 740) return EncodeOne(ns);
  if (dice < 970) return PutPending();
  return Disturb(ns);
}

std::string MemoryPropertyTest::WhyNot(const OracleSpace& space, const OracleFact& fact,
                                       const OracleRecord& record) const {
  if (fact.life != record.own) return "its fact has other words";
  if (fact.superseded) return "its fact was superseded";
  std::set<Life> facts, turns;
  for (const auto& [id, other] : space.facts)
    if (!other.superseded && !other.expires_us) facts.insert(other.life);
  for (const auto& [id, life] : space.turns) turns.insert(life);
  if (!std::includes(facts.begin(), facts.end(), record.facts.begin(), record.facts.end()))
    return "it saw a fact that is gone, changed or superseded, or that expires";
  if (!std::includes(turns.begin(), turns.end(), record.turns.begin(), record.turns.end()))
    return "it saw a turn that is gone or changed";
  return "";
}

void MemoryPropertyTest::CheckRecords(const std::string& ns) {
  const OracleSpace& space = spaces_[ns];
  if (space.facts.empty()) return;
  const NamespaceInfo info = Space(ns);
  std::vector<FactRow> rows;
  std::vector<const OracleFact*> facts;
  (void)memory().catalog().ScanFacts(info.id, {}, [&](const ScanRow& row) {
    const std::string id = row.fact.id.substr(0, row.fact.id.find('#'));
    facts.push_back(&space.facts.at(id));
    EXPECT_EQ(facts.back()->rows.at(row.fact.id), row.fact.text);
    rows.push_back(row.fact);
    return true;
  });
  std::vector<Tokens> tokens;
  for (const FactRow& row : rows) tokens.push_back(TokensOf(row.text));
  std::vector<WantedRecord> wanted;
  for (size_t i = 0; i < rows.size(); ++i) wanted.push_back({rows[i].seq, rows[i].id, rows[i].version, tokens[i]});
  const auto loaded = memory().vault().Load(info, kKvModel, kKvShape, wanted);
  ASSERT_TRUE(loaded) << loaded.error().message;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (loaded->at(i) == nullptr) continue;
    ++loaded_;
    const auto record = records_.find(HashBytes(PayloadOf(*loaded->at(i))));
    ASSERT_NE(record, records_.end()) << "bytes that nobody encoded";
    ASSERT_EQ(WhyNot(space, *facts[i], record->second), "") << rows[i].id;
  }
  ASSERT_THAT(*memory().catalog().PendingErase(10), IsEmpty()) << "dead bytes are destroyed when a call returns";
}

// Exactly the live rows are found.
void MemoryPropertyTest::CheckRecall(const std::string& ns) {
  std::set<std::string> expected, found;
  for (const auto& [id, fact] : spaces_[ns].facts)
    if (!fact.superseded && (!fact.expires_us || *fact.expires_us > Now()))
      for (const auto& [row, text] : fact.rows) expected.insert(row + " " + text);
  RecallOptions all;
  all.top_k = 5000;
  for (const RecallHit& hit : Recall(ns, "text of 3", all)) found.insert(hit.fact.id + " " + hit.fact.text);
  ASSERT_EQ(found, expected);
}

TEST_F(MemoryPropertyTest, NoRecordThatIsUsedHasSeenWhatIsGone) {
  constexpr int kSteps = 10'000;
  for (int step = 0; step < kSteps; ++step) {
    SCOPED_TRACE("step " + std::to_string(step));
    ASSERT_NO_FATAL_FAILURE(Step());
    for (const auto& [ns, space] : spaces_) {
      if (step % 5 == 0 || ns == touched_) {
        ASSERT_NO_FATAL_FAILURE(CheckRecords(ns));
      }
      if (step % 20 == 0) {
        ASSERT_NO_FATAL_FAILURE(CheckRecall(ns));
      }
    }
    if (step % 1000 == 999) {
      ASSERT_THAT(Findings(), IsEmpty());
    }
  }
  EXPECT_GT(loaded_, 10'000u);
  EXPECT_GT(refused_, 100u);
  // All that is queued is encoded: then every live fact has a record again.
  Expire();
  for (const auto& [ns, space] : spaces_) {
    if (space.facts.empty()) continue;
    ASSERT_TRUE(memory().catalog().EnqueueAll(Space(ns).id));
    for (const auto& [id, fact] : space.facts)
      for (const auto& [row, text] : fact.rows) {
        if (IsQueued(ns, row)) {
          EXPECT_TRUE(Encode(ns, row));
        }
        EXPECT_EQ(Load(ns, row) != nullptr, !fact.superseded) << row;
      }
    EXPECT_THAT(*memory().catalog().QueuedFacts(Space(ns).id), IsEmpty());
  }
}

}  // namespace
}  // namespace inferscale
