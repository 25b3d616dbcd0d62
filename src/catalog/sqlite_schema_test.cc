// Opening: new, older, newer and foreign files; settings.
#include "catalog/sqlite_schema.h"

#include <gmock/gmock.h>

#include <fstream>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class SqliteSchemaTest : public CatalogTest {
 protected:
  Result<std::unique_ptr<Catalog>> Reopen() {
    Close();
    return OpenSqliteCatalog(folder_);
  }
};

TEST_F(SqliteSchemaTest, ANewerFileIsRefusedAndNotChanged) {
  AddText(ns_, "f", "text");
  Close();
  Sql("PRAGMA user_version=7; UPDATE settings SET value=CAST('inferscale 3.1' AS BLOB) WHERE key='made_by'");
  const auto refused = Reopen();
  EXPECT_EQ(CodeOf(refused), ErrorCode::kVersionUnsupported);
  for (const char* part : {"schema 7", "inferscale 3.1", "schemas up to 2", "newer"})
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  for (const char* damaged : {"PRAGMA user_version=-16777214", "PRAGMA user_version=33554434"}) {
    Sql(damaged);
    EXPECT_EQ(CodeOf(Reopen()), ErrorCode::kCorrupt) << damaged << ": nobody wrote that";
  }
  Sql("PRAGMA user_version=2");
  EXPECT_EQ(Reopen().value()->GetFact(ns_, "f")->text, "text");
}

TEST_F(SqliteSchemaTest, AForeignFileIsRefused) {
  Close();
  fs::remove(file());
  Sql("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
  const auto foreign = Reopen();
  EXPECT_EQ(CodeOf(foreign), ErrorCode::kCorrupt);
  EXPECT_THAT(foreign.error().message, HasSubstr("not a catalog of InferScale"));
  fs::remove(file());
  std::ofstream(file()) << std::string(8192, 'x');
  EXPECT_EQ(CodeOf(Reopen()), ErrorCode::kCorrupt);
  fs::remove(file());
  fs::create_directory(file());
  EXPECT_EQ(CodeOf(Reopen()), ErrorCode::kIo);
}

TEST_F(SqliteSchemaTest, AnOlderFileIsMigratedStepByStep) {
  const fs::path path = folder_ / "old.db";
  const char* const steps[] = {sqlite::Migrations()[0], "CREATE TABLE more(a INTEGER) STRICT",
                               "ALTER TABLE more ADD COLUMN b INTEGER DEFAULT 5; INSERT INTO more(a) VALUES(1)"};
  const auto migrate = [&](size_t count, const char* program) {
    auto connection = sqlite::Connection::Open(path, {}).value();
    const Status status = sqlite::Migrate(*connection, std::span(steps, count), program);
    EXPECT_TRUE(status) << status.error().message;
    return connection;
  };
  migrate(1, "first");
  const auto connection = migrate(3, "third");
  EXPECT_EQ(connection->Value("SELECT b FROM more").value(), 5);
  EXPECT_EQ(connection->Value("PRAGMA user_version").value(), 3);
  EXPECT_EQ(connection->Value("SELECT count(*) FROM settings WHERE value=CAST('third' AS BLOB)").value(), 1);
  EXPECT_FALSE(sqlite::Migrate(*connection, std::span(steps, 2), "second"));
}

TEST_F(SqliteSchemaTest, AMigrationThatFailsLeavesTheFileAsItWas) {
  const fs::path path = folder_ / "old.db";
  const char* const steps[] = {sqlite::Migrations()[0], "CREATE TABLE more(a INTEGER); INSERT INTO nothing VALUES(1)"};
  const auto connection = sqlite::Connection::Open(path, {}).value();
  ASSERT_TRUE(sqlite::Migrate(*connection, std::span(steps, 1), "first"));
  EXPECT_FALSE(sqlite::Migrate(*connection, steps, "second"));
  EXPECT_EQ(connection->Value("PRAGMA user_version").value(), 1);
  EXPECT_EQ(connection->Value("SELECT count(*) FROM sqlite_schema WHERE name='more'").value(), 0);
}

TEST_F(SqliteSchemaTest, DamagedDefinitionsAreRefused) {
  Close();
  Sql("CREATE INDEX another ON turns(text)");
  const auto refused = Reopen();
  EXPECT_EQ(CodeOf(refused), ErrorCode::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("definitions"));
  Sql("DROP INDEX another");
  EXPECT_TRUE(Reopen());
}

TEST_F(SqliteSchemaTest, SettingsAreKept) {
  const std::string bytes("\0binary\xFF", 8);
  ASSERT_TRUE(catalog().SetSetting("key", "first"));
  ASSERT_TRUE(catalog().SetSetting("key", bytes));
  ASSERT_TRUE(catalog().SetSetting("made_by", "the application's own"));
  Open();
  EXPECT_EQ(catalog().GetSetting("key").value(), bytes);
  EXPECT_EQ(catalog().GetSetting("made_by").value(), "the application's own") << "not the catalog's";
  EXPECT_EQ(catalog().GetSetting("other").value(), std::nullopt);
  EXPECT_EQ(CodeOf(catalog().SetSetting("", "x")), ErrorCode::kTooLarge);
  EXPECT_EQ(CodeOf(catalog().SetSetting("x", std::string(limits::kSettingBytes + 1, 'x'))), ErrorCode::kTooLarge);
}

TEST_F(SqliteSchemaTest, NamespacesAreListedPageByPage) {
  for (int i = 0; i < 5; ++i) Name("n" + std::to_string(i));
  EXPECT_EQ(Name("n0"), Name("n0"));
  NamespaceId after = 0;
  std::vector<std::string> names;
  for (;;) {
    const auto page = catalog().ListNamespaces(after, 2).value();
    if (page.empty()) break;
    for (const NamespaceInfo& info : page) names.push_back(info.name);
    after = page.back().id;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"user:ada", "n0", "n1", "n2", "n3", "n4"}));
  EXPECT_EQ(CodeOf(catalog().OpenNamespace("")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(catalog().GetNamespace(99)), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace inferscale
