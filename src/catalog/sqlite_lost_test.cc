// Files of the catalog that are gone or empty: never taken for a new store, and nothing is written over what is left.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "catalog/catalog_test_util.h"
#include "catalog/sqlite_connection.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

class SqliteLostTest : public CatalogTest {
 protected:
  std::map<std::string, std::string> Files() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      std::ifstream in(entry.path(), std::ios::binary);
      files[entry.path().filename().string()].assign(std::istreambuf_iterator<char>(in), {});
    }
    return files;
  }
  void ExpectLost(const char* how) {
    const auto before = Files();
    const auto opened = OpenSqliteCatalog(folder_, {.was_used = true});
    ASSERT_EQ(CodeOf(opened), ErrorCode::kCorrupt);
    EXPECT_THAT(opened.error().message, HasSubstr(how));
    EXPECT_THAT(opened.error().message, HasSubstr("restore a copy, or remove the folder"));
    auto after = Files();
    after.erase("catalog.db-shm");  // SQLite's own, of no content
    for (const auto& [name, bytes] : before) EXPECT_TRUE(after.contains(name) && after[name] == bytes) << name;
  }
  void Copy(const fs::path& to, const std::vector<std::string>& names) const {
    fs::remove_all(to);
    fs::create_directory(to);
    for (const std::string& name : names) fs::copy_file(folder_ / name, to / name);
  }
};

TEST_F(SqliteLostTest, ANewCatalogIsInItsFileBeforeAnythingElseIsMade) {
  Close();
  fs::remove(file());
  const auto opened = OpenSqliteCatalog(folder_).value();
  Copy(folder_ / "copy", {"catalog.db"});  // without its log
  const auto db = sqlite::Connection::Open(folder_ / "copy" / "catalog.db", {}).value();
  EXPECT_EQ(db->Value("PRAGMA user_version").value(), 2);
  EXPECT_GT(db->Value("SELECT count(*) FROM sqlite_schema").value(), 30);
}

TEST_F(SqliteLostTest, AFileThatIsGoneOrEmptyIsNoNewCatalog) {
  AddText(ns_, "f", "text");
  Close();
  fs::resize_file(file(), 0);
  ExpectLost("is empty");
  fs::remove(file());
  ExpectLost("is missing");
  EXPECT_FALSE(fs::exists(file()));
  EXPECT_TRUE(OpenSqliteCatalog(folder_)) << "in a folder that was not in use";
}

TEST_F(SqliteLostTest, AnEmptyFileBesideALogIsNoNewCatalog) {
  AddText(ns_, "f", "text");
  Copy(folder_ / "copy", {"catalog.db-wal"});
  std::ofstream(folder_ / "copy" / "catalog.db").close();
  Close();
  folder_ /= "copy";
  ExpectLost("is empty");
  folder_ = folder_.parent_path();
}

// As catalogs of before schema 2 were left, when a crash's log was deleted.
TEST_F(SqliteLostTest, AFileWithoutTablesIsNoNewCatalog) {
  Close();
  fs::remove(file());
  Sql("PRAGMA journal_mode=WAL");
  ASSERT_EQ(fs::file_size(file()), 4096u);
  ExpectLost("has no tables");
}

TEST_F(SqliteLostTest, ALogThatWasTakenAwayIsSaid) {
  ASSERT_TRUE(catalog().Scrub());
  AddText(ns_, "f", "text");
  Copy(folder_ / "copy", {"catalog.db", "catalog.db-shm"});
  SqliteOpenReport report;
  {
    const auto opened = OpenSqliteCatalog(folder_ / "copy", {}, &report).value();
    EXPECT_TRUE(report.changes_lost);
    EXPECT_THAT(opened->ListFacts(ns_, {}).value(), IsEmpty());
    EXPECT_EQ(opened->Fsck(true)->at(0).what,
              "changes before a crash may be lost: the log was damaged or gone at the next start");
    EXPECT_THAT(opened->Fsck(false).value(), IsEmpty());
  }
  EXPECT_TRUE(OpenSqliteCatalog(folder_ / "copy", {}, &report));
  EXPECT_FALSE(report.changes_lost) << "a clean end";
  Open();
  EXPECT_EQ(catalog().GetFact(ns_, "f")->text, "text");
}

TEST_F(SqliteLostTest, FilesAreForTheirOwnerAlone) {
  const auto mode = [&](const char* name) { return fs::status(folder_ / name).permissions(); };
  constexpr fs::perms kOwner = fs::perms::owner_read | fs::perms::owner_write;
  AddText(ns_, "f", "text");
  for (const char* name : {"catalog.db", "catalog.db-wal", "catalog.db-shm"}) EXPECT_EQ(mode(name), kOwner) << name;
}

}  // namespace
}  // namespace inferscale
