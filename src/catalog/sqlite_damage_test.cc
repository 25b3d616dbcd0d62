// One byte of the database is another one, at many places. Whatever is still read is right; what is not is an error or
// a finding of Fsck; and what can be derived is made again.
#include <gmock/gmock.h>

#include <fstream>
#include <random>

#include "catalog/damage_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SqliteDamageTest : public DamageTest {
 protected:
  void CheckFlip(const std::string& bytes, size_t at, char mask, const Contents& truth);
  size_t silent_ = 0, refused_ = 0, found_ = 0;
};

void SqliteDamageTest::CheckFlip(const std::string& bytes, size_t at, char mask, const Contents& truth) {
  const std::unique_ptr<Catalog> opened = OpenFlipped(bytes, at, mask);
  if (opened == nullptr) {
    ++refused_;
    return;
  }
  Catalog& catalog = *opened;
  const Contents found = Read(catalog);
  ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found, truth));
  ASSERT_NO_FATAL_FAILURE(ExpectNothingMissing(found, truth));
  const auto findings = catalog.Fsck(false);
  const bool is_clean = findings && findings->empty() && !found.noticed;
  if (is_clean) {
    ++silent_;  // a byte that nothing depends on
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
  ASSERT_EQ(truth.texts.size(), 2 * (16 + 11 + 3) + 1u);
  const std::string bytes = Bytes();
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
  EXPECT_THAT(Findings(true), testing::IsSupersetOf({HasSubstr("fact \"f7\" of namespace \"user:ada\" is damaged"),
                                                     HasSubstr("fact \"long\""), HasSubstr("turn number 2")}));
  EXPECT_THAT(Findings(), Not(IsEmpty())) << "nothing can bring it back";
  ListOptions page{.limit = 3};
  size_t listed = 0;
  for (std::vector<FactRow> rows; !(rows = catalog().ListFacts(ns_, page).value()).empty();
       page.after = rows.back().seq)
    listed += rows.size();
  EXPECT_EQ(listed, 12u) << "15 facts, one deleted, one superseded, one damaged";
  EXPECT_EQ(Delete(ns_, {"f7", "long"}).deleted, 2u);
  const std::vector<NewTurn> again = {{"t1", 1, "Bob", "hi", {}}};
  ASSERT_TRUE(catalog().PutTurns(ns_, again));
  EXPECT_THAT(Findings(), IsEmpty());
}

}  // namespace
}  // namespace inferscale
