// The format: what a fixed script writes is tests/data/catalog_v2.sql, byte for byte, and a catalog of that text is
// read, as is one of the schema before, catalog_v1.sql.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "catalog/catalog_test_util.h"
#include "catalog/sqlite_connection.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

const char kGolden[] = INFERSCALE_TEST_DATA "/catalog_v2.sql";
const char kOlder[] = INFERSCALE_TEST_DATA "/catalog_v1.sql";

std::string Slurp(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

// Definitions and rows, as SQL that makes them again.
std::string DumpSql(const fs::path& path) {
  const auto db = sqlite::Connection::Open(path, {"", true}).value();
  const auto column = [&](const std::string& sql) {
    std::vector<std::string> all;
    sqlite3_stmt* stmt = nullptr;
    EXPECT_EQ(sqlite3_prepare_v2(db->db(), sql.c_str(), -1, &stmt, nullptr), SQLITE_OK) << sql;
    while (sqlite3_step(stmt) == SQLITE_ROW)
      all.emplace_back(reinterpret_cast<const char*>(sqlite3_column_text(stmt, 0)));
    sqlite3_finalize(stmt);
    return all;
  };
  std::ostringstream out;
  out << "PRAGMA application_id=" << db->Value("PRAGMA application_id").value().value() << ";\n"
      << "PRAGMA user_version=" << db->Value("PRAGMA user_version").value().value() << ";\n";
  for (const std::string& sql :
       column("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%'"))
    out << sql << ";\n";
  // Numbers given last: behind the rows, whose insertion sets them too.
  std::vector<std::string> tables =
      column("SELECT name FROM sqlite_schema WHERE type='table' AND name<>'sqlite_sequence' ORDER BY name");
  tables.push_back("sqlite_sequence");
  for (const std::string& table : tables) {
    if (table == "sqlite_sequence") out << "DELETE FROM sqlite_sequence;\n";
    std::string values;
    for (const std::string& name : column("SELECT name FROM pragma_table_info('" + table + "')"))
      values += (values.empty() ? "quote(" : " || ',' || quote(") + name + ")";
    for (const std::string& row : column("SELECT " + values + " FROM " + table + " ORDER BY 1"))
      out << "INSERT INTO " << table << " VALUES(" << row << ");\n";
  }
  return out.str();
}

class SqliteGoldenTest : public CatalogTest {
 protected:
  std::vector<NewFact> FirstFacts() const {
    NewFact dated = FactOf("f1", "Ada likes tea");
    dated.content.date = Date{2023, 5, 8};
    dated.metadata = R"({"k":1})";
    dated.scope = {"ada", "agent", "run", "app"};
    dated.turn = "t1";
    dated.supersede_key = "drink";
    NewFact expiring = FactOf("f2", "Ada is in Paris");
    expiring.expires_us = kTestStart + kTestDay;
    return {dated, expiring, FactOf("f3", "Ada has a cat"), LongFact("long", {"first part", "second part"})};
  }
  void Fill() {
    const std::vector<NewTurn> turns = {{"t1", 0, "Ada", "I like tea", Date{2023, 5, 8}}};
    ASSERT_TRUE(catalog().PutTurns(ns_, turns));
    Add(ns_, FirstFacts(), {"key", 5});
    ASSERT_TRUE(catalog().UpdateFact(ns_, "f3", {.content = ContentOf("Ada has two cats")}));
    NewFact newer = FactOf("f4", "Ada likes coffee");
    newer.supersede_key = "drink";
    Add(ns_, {newer});
    const FactSeq cats = catalog().GetFact(ns_, "f3")->seq, coffee = catalog().GetFact(ns_, "f4")->seq;
    PutRecord(ns_, cats, {coffee});
    PutRecord(ns_, coffee, {cats});
    PutRecord(ns_, coffee, {});
    const std::vector<FactRun> runs = {{{{"f3", 2, {5, 6}, 4}}, {{"f4", 1, {7, 8}, 3}}, 1, true, false}};
    ASSERT_TRUE(catalog().SaveRuns(ns_, runs));
    ASSERT_TRUE(catalog().SetSetting("name", "value"));
  }
  void ExpectContents();
};

TEST_F(SqliteGoldenTest, WritesTheFormat) {
  ASSERT_NO_FATAL_FAILURE(Fill());
  Close();
  const std::string written = DumpSql(file());
  const fs::path kept = fs::temp_directory_path() / "catalog_v2.sql";
  if (written != Slurp(kGolden)) std::ofstream(kept, std::ios::binary) << written;
  EXPECT_TRUE(written == Slurp(kGolden)) << "what was written is in " << kept;
}

void SqliteGoldenTest::ExpectContents() {
  ASSERT_NO_FATAL_FAILURE(Open());
  ns_ = catalog().FindNamespace("user:ada")->id;
  EXPECT_EQ(catalog().GetFact(ns_, "f1")->superseded_by, "f4");
  EXPECT_EQ(catalog().GetFact(ns_, "f1")->scope.app_id, "app");
  EXPECT_EQ(catalog().History(ns_, "f3")->at(1).old_text, "Ada has a cat");
  EXPECT_EQ(catalog().FindTurn(ns_, "t1")->text, "I like tea");
  EXPECT_EQ(catalog().GetSetting("name").value(), "value");
  EXPECT_EQ(catalog().LoadRuns(ns_)->at(0).run.members.at(0).id, "f4");
  const auto rows = catalog().UsableRecords(ns_, kTestModel, {}).value();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].saw.size(), 1u);
  size_t vectors = 0;
  const auto scan = catalog().ScanFacts(ns_, {.with_vector = true}, [&](const ScanRow& row) {
    vectors += row.vector.empty() ? 0 : 1;
    return true;
  });
  EXPECT_EQ(vectors, scan->rows);
  EXPECT_EQ(catalog().ReserveRecords(1).value(), 1025u);
  EXPECT_TRUE(Add(ns_, FirstFacts(), {"key", 5}).replayed);
  EXPECT_THAT(Findings(), testing::IsEmpty());
}

TEST_F(SqliteGoldenTest, ReadsTheFormat) {
  Close();
  fs::remove(file());
  {
    const auto db = sqlite::Connection::Open(file(), {}).value();  // its pages get checksums
    ASSERT_TRUE(db->Script(("PRAGMA foreign_keys=OFF;" + Slurp(kGolden)).c_str()));
  }
  ExpectContents();
}

TEST_F(SqliteGoldenTest, ReadsTheFormatBefore) {
  Close();
  fs::remove(file());
  const std::string words = "words of an older key";
  Sql(Slurp(kOlder) + "INSERT INTO idempotency SELECT ns, '" + words + "', request, at_us, result FROM idempotency");
  ASSERT_NE(Slurp(file()).find(words), std::string::npos);
  ExpectContents();
  EXPECT_TRUE(Add(ns_, FirstFacts(), {words, 5}).replayed);
  EXPECT_EQ((Slurp(file()) + Slurp(file().string() + "-wal")).find(words), std::string::npos) << "only its digest";
  Close();
  EXPECT_TRUE(sqlite::HasPageSums(sqlite::Connection::Open(file(), {"", true}).value()->db()).value());
}

}  // namespace
}  // namespace inferscale
