// One byte of the database is another one, at many places. Whatever is still read is right; what is not is an error or
// a finding of Fsck; and what can be derived is made again.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// All that a reader gets to see, by name.
struct Contents {
  std::map<std::string, std::string> texts;          // facts and turns with all their fields, settings
  std::map<std::string, std::set<std::string>> old;  // words of the history
  std::map<std::string, std::string> derived;        // vectors, postings, counts, usable records
  bool noticed = false;                              // an error, or damage that was counted
};

class SqliteDamageTest : public CatalogTest {
 protected:
  void Fill();
  static void ReadNamespace(Catalog& catalog, const std::string& name, Contents& all);
  static Contents Read(Catalog& catalog);
  static void ExpectNothingWrong(const Contents& found, const Contents& truth);
  void CheckFlip(const std::string& bytes, size_t at, char mask, const Contents& truth);
  // Notes errors; kNotFound is none.
  template <class T>
  static bool Usable(const Result<T>& result, Contents& all) {
    if (!result && result.error().code != ErrorCode::kNotFound) all.noticed = true;
    return result.has_value();
  }
  size_t silent_ = 0, refused_ = 0, found_ = 0;
};

void SqliteDamageTest::Fill() {
  for (const char* name : {"user:ada", "user:adb"}) {
    const NamespaceId ns = Name(name);
    std::vector<FactSeq> facts;
    for (int i = 0; i < 12; ++i) {
      NewFact fact = FactOf("f" + std::to_string(i), std::string(name) + " fact number " + std::to_string(i));
      fact.turn = "t" + std::to_string(i % 3);
      fact.metadata = "{\"i\":" + std::to_string(i) + "}";
      facts.push_back(Add(ns, {fact}, {"key" + std::to_string(i), 0}).facts[0].seq);
    }
    Add(ns, {LongFact("long", {"the first part", "the second part"}), FactOf("big", "word " + std::string(200, 'x'))});
    const std::vector<NewTurn> turns = {
        {"t0", 0, "Ada", "hello", {}}, {"t1", 1, "Bob", "hi", {}}, {"t2", 2, "Ada", "so", {}}};
    ASSERT_TRUE(catalog().PutTurns(ns, turns));
    (void)catalog().UpdateFact(ns, "f3", {.content = ContentOf("changed text")});
    ASSERT_TRUE(catalog().Supersede(ns, "f4", "f5"));
    Delete(ns, {"f6"});
    for (size_t i = 7; i < 12; ++i) PutRecord(ns, facts[i], {facts[0], facts[1]});
    ASSERT_TRUE(
        catalog().SaveRuns(ns, std::vector<FactRun>{{{}, {{"f0", 1, {1, 2}, 3}, {"f1", 1, {1, 3}, 3}}, 0, true}}));
  }
  ASSERT_TRUE(catalog().SetSetting("setting", "its value"));
  Close();
}

void SqliteDamageTest::ReadNamespace(Catalog& catalog, const std::string& name, Contents& all) {
  const auto info = catalog.FindNamespace(name);
  if (!Usable(info, all)) return;
  all.derived["counts " + name] = std::to_string(info->facts) + " " + std::to_string(info->searchable) + " " +
                                  std::to_string(info->words) + " " + std::to_string(info->kv_bytes);
  const auto stats = catalog.ScanFacts(info->id, {.with_vector = true, .parents = true}, [&](const ScanRow& row) {
    std::ostringstream text, vector;
    text << row.fact.version << row.fact.text << row.fact.metadata << row.fact.turn << row.fact.superseded_by;
    all.texts["fact " + name + row.fact.id] = text.str();
    for (const float element : row.vector) vector << element << ' ';
    all.derived["vector " + name + row.fact.id] = vector.str();
    return true;
  });
  if (Usable(stats, all) && stats->damaged_facts + stats->damaged_vectors > 0) all.noticed = true;
  for (int i = 0; i < 12; ++i) {
    const std::string id = "f" + std::to_string(i);
    const auto fact = catalog.GetFact(info->id, id);
    if (Usable(fact, all)) all.texts["found " + name + id] = fact->text;
    const auto history = catalog.History(info->id, id);
    if (!Usable(history, all)) continue;
    for (const HistoryEntry& entry : *history)
      for (const auto& words : {entry.old_text, entry.new_text}) all.old[name + id].insert(words.value_or(""));
  }
  const auto turns = catalog.GetTurns(info->id, 0, 100);
  if (Usable(turns, all))
    for (const TurnRow& turn : *turns) all.texts["turn " + name + turn.id] = turn.speaker + turn.text;
  const std::vector<std::string> terms = {"fact", "number", "changed", "part", "word"};
  const auto postings = catalog.Postings(info->id, terms, 1000);
  if (Usable(postings, all))
    for (size_t i = 0; i < terms.size(); ++i)
      for (const Posting& posting : postings->at(i).postings)
        all.derived["posting " + name + terms[i]] += std::to_string(posting.fact) + " ";
  const auto rows = catalog.UsableRecords(info->id, kTestModel, {});
  if (Usable(rows, all))
    for (const KvRow& row : *rows)
      all.derived["record " + std::to_string(row.record)] =
          std::to_string(row.fact) + name + std::to_string(row.saw.size());
}

Contents SqliteDamageTest::Read(Catalog& catalog) {
  Contents all;
  for (const char* name : {"user:ada", "user:adb"}) ReadNamespace(catalog, name, all);
  const auto setting = catalog.GetSetting("setting");
  if (Usable(setting, all)) all.texts["setting"] = setting->value_or("none");
  return all;
}

void SqliteDamageTest::ExpectNothingWrong(const Contents& found, const Contents& truth) {
  for (const auto& [name, text] : found.texts) {
    if (name == "setting" && text == "none") continue;  // missing, not wrong
    ASSERT_TRUE(truth.texts.contains(name)) << name;
    ASSERT_EQ(text, truth.texts.at(name)) << name;
  }
  for (const auto& [name, words] : found.old)
    for (const std::string& each : words) ASSERT_TRUE(each.empty() || truth.old.at(name).contains(each)) << name;
  for (const auto& [name, value] : found.derived)
    if (name.starts_with("record ") || (name.starts_with("vector ") && !value.empty())) {
      ASSERT_TRUE(truth.derived.contains(name)) << name;
      ASSERT_EQ(value, truth.derived.at(name)) << name;
    }
}

void SqliteDamageTest::CheckFlip(const std::string& bytes, size_t at, char mask, const Contents& truth) {
  std::string damaged = bytes;
  damaged[at] = static_cast<char>(damaged[at] ^ mask);
  fs::remove(folder_ / "catalog.db-wal");
  std::ofstream(file(), std::ios::binary) << damaged;
  const auto opened = OpenSqliteCatalog(folder_);
  if (!opened) {
    ++refused_;
    return;
  }
  Catalog& catalog = **opened;
  const Contents found = Read(catalog);
  ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found, truth));
  const auto findings = catalog.Fsck(false);
  const bool is_clean = findings && findings->empty() && !found.noticed;
  if (is_clean) {
    ++silent_;  // a byte that nothing depends on
    ASSERT_EQ(found.texts, truth.texts);
    ASSERT_EQ(found.old, truth.old);
    ASSERT_EQ(found.derived, truth.derived);
    return;
  }
  ++found_;
  const auto repaired = catalog.Fsck(true);
  if (!repaired) return;
  const Contents after = Read(catalog);
  ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(after, truth));
  for (const FsckFinding& finding : *repaired)
    if (!finding.repaired) return;  // reported as lost
  ASSERT_EQ(after.texts, truth.texts);
  const auto again = catalog.Fsck(false);
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_TRUE(again->empty()) << repaired->at(0).what << " | " << again->at(0).what;
}

TEST_F(SqliteDamageTest, AFlippedByteIsNeverAWrongText) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  Contents truth;
  {
    const auto whole = OpenSqliteCatalog(folder_).value();
    truth = Read(*whole);
    ASSERT_THAT(whole->Fsck(false).value(), IsEmpty());
  }
  ASSERT_EQ(truth.texts.size(), 2 * (15 + 11 + 3) + 1u);
  std::ifstream in(file(), std::ios::binary);
  const std::string bytes(std::istreambuf_iterator<char>(in), {});
  ASSERT_GT(bytes.size(), 100'000u);
  std::mt19937_64 random(7);
  for (int i = 0; i < 1000; ++i) {
    // Most bytes of so small a database are zeros between cells.
    size_t at = random() % bytes.size();
    for (int tries = 0; tries < 30 && bytes[at] == 0; ++tries) at = random() % bytes.size();
    const char mask = static_cast<char>(1 + random() % 255);
    SCOPED_TRACE("byte " + std::to_string(at) + " of " + std::to_string(bytes.size()) + ", xor " +
                 std::to_string(mask));
    ASSERT_NO_FATAL_FAILURE(CheckFlip(bytes, at, mask, truth));
  }
  EXPECT_GT(found_, 200u);
  EXPECT_GT(refused_, 30u);
  EXPECT_LT(silent_, 500u);
}

// The log of a crash. What was acknowledged before the last two transactions is there, or its loss is reported.
TEST_F(SqliteDamageTest, AFlippedByteInTheLogIsNoSilentLoss) {
  const fs::path log = folder_ / "catalog.db-wal", copy = folder_ / "copy";
  ASSERT_TRUE(catalog().Scrub());  // and so an empty log
  for (int i = 0; i < 8; ++i) AddText(ns_, "f" + std::to_string(i), "fact number " + std::to_string(i));
  std::string database, bytes;
  for (const auto& [path, into] : {std::pair(file(), &database), std::pair(log, &bytes)}) {
    std::ifstream in(path, std::ios::binary);
    into->assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_GT(bytes.size(), 100'000u);
  std::mt19937_64 random(5);
  size_t lost = 0;
  for (int i = 0; i < 300; ++i) {
    fs::remove_all(copy);
    fs::create_directory(copy);
    std::string damaged = bytes;
    const size_t at = i < 32 ? static_cast<size_t>(i) : random() % bytes.size();
    damaged[at] = static_cast<char>(damaged[at] ^ static_cast<char>(1 + random() % 255));
    std::ofstream(copy / "catalog.db", std::ios::binary) << database;
    std::ofstream(copy / "catalog.db-wal", std::ios::binary) << damaged;
    SqliteOpenReport report;
    const auto opened = OpenSqliteCatalog(copy, {}, &report);
    ASSERT_TRUE(opened) << opened.error().message;
    const auto rows = (*opened)->ListFacts(ns_, {}).value();
    for (size_t j = 0; j < rows.size(); ++j) ASSERT_EQ(rows[j].text, "fact number " + std::to_string(j));
    ASSERT_TRUE(rows.size() >= 6 || report.changes_lost) << "byte " << at << ": " << rows.size();
    if (!report.changes_lost) continue;
    ++lost;
    ASSERT_THAT((*opened)->Fsck(true).value(), testing::SizeIs(1));
    ASSERT_THAT((*opened)->Fsck(false).value(), IsEmpty());
  }
  EXPECT_GT(lost, 150u);
}

// Where Fsck says "repaired", each kind of damage once.
TEST_F(SqliteDamageTest, WhatCanBeDerivedIsMadeAgain) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  Open();
  ns_ = Name("user:ada");
  const auto repairs = [&](const std::string& sql, const std::string& what) {
    Sql("PRAGMA foreign_keys=OFF; " + sql);
    const auto findings = Findings(true);
    EXPECT_THAT(findings, testing::Contains(HasSubstr(what))) << sql;
    for (const std::string& finding : findings) EXPECT_EQ(finding[0], '+') << finding;
    EXPECT_THAT(Findings(), IsEmpty()) << sql;
  };
  repairs("UPDATE namespaces SET facts=77", "wrong counts");
  repairs("DELETE FROM postings WHERE seq=2", "search data of fact number 2");
  EXPECT_THAT(catalog().FactsToEmbed(0, 100).value(), testing::SizeIs(1));
  const FactVector anew{2, 1, SearchOf("user:ada fact number 1")};
  ASSERT_TRUE(catalog().PutVectors({&anew, 1}));
  EXPECT_THAT(catalog().FactsToEmbed(0, 100).value(), IsEmpty());
  EXPECT_THAT(Findings(), IsEmpty());
  repairs("UPDATE fact_index SET vector=zeroblob(24) WHERE seq=3", "search data of fact number 3");
  repairs("INSERT INTO postings SELECT id, 3, 1 FROM terms WHERE term='changed'", "no fact has");
  repairs("UPDATE terms SET facts=facts+1", "wrong number of facts");
  repairs("UPDATE terms SET term='fbct' WHERE term='fact'", "damaged words");
  repairs("UPDATE kv SET version=version+1 WHERE record=(SELECT min(record) FROM kv)", "must not be used");
  repairs("UPDATE kv SET saw=zeroblob(9) WHERE record=(SELECT min(record) FROM kv)", "must not be used");
  repairs("INSERT INTO queue SELECT 999, ns, 0, 0, 0, 0, 0, 0, '' FROM queue LIMIT 1", "queued facts");
  repairs("UPDATE history SET old_text=zeroblob(20) WHERE old_text IS NOT NULL AND ns=1", "former texts");
  EXPECT_EQ(catalog().History(ns_, "f3")->back().old_text, std::nullopt);
}

TEST_F(SqliteDamageTest, ALostTextIsReportedAndCanBeDeleted) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  Open();
  ns_ = Name("user:ada");
  Sql("UPDATE facts SET text='another text' WHERE id='f7' AND ns=1; UPDATE turns SET text='x' WHERE id='t1' AND ns=1;"
      "UPDATE facts SET text='y' WHERE id='long#1' AND ns=1");
  EXPECT_EQ(CodeOf(catalog().GetFact(ns_, "f7")), ErrorCode::kCorrupt);
  EXPECT_EQ(CodeOf(catalog().FindTurn(ns_, "t1")), ErrorCode::kCorrupt);
  EXPECT_EQ(catalog().ScanFacts(ns_, {}, [](const ScanRow&) { return true; })->damaged_facts, 2u);
  EXPECT_THAT(Findings(true),
              testing::IsSupersetOf({HasSubstr("fact number 8 is damaged"), HasSubstr("turn number 2")}));
  EXPECT_THAT(Findings(), Not(IsEmpty())) << "nothing can bring it back";
  ListOptions page{.limit = 3};
  size_t listed = 0;
  for (std::vector<FactRow> rows; !(rows = catalog().ListFacts(ns_, page).value()).empty();
       page.after = rows.back().seq)
    listed += rows.size();
  EXPECT_EQ(listed, 11u) << "14 facts, one deleted, one superseded, one damaged";
  EXPECT_EQ(Delete(ns_, {"f7", "long"}).deleted, 2u);
  const std::vector<NewTurn> again = {{"t1", 1, "Bob", "hi", {}}};
  ASSERT_TRUE(catalog().PutTurns(ns_, again));
  EXPECT_THAT(Findings(), IsEmpty());
}

}  // namespace
}  // namespace inferscale
