#include "catalog/page_check_vfs.h"

#include <gmock/gmock.h>

#include <fstream>
#include <random>
#include <sstream>

#include "catalog/catalog_test_util.h"
#include "catalog/crash_vfs_test_util.h"
#include "catalog/sqlite_connection.h"
#include "catalog/sqlite_page.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;

std::string Slurp(const fs::path& path) {
  std::ostringstream bytes;
  bytes << std::ifstream(path, std::ios::binary).rdbuf();
  return bytes.str();
}

std::vector<uint8_t> Page(std::string_view file, uint32_t number) {
  const auto page = file.substr((number - size_t{1}) * sqlite::kPageBytes, sqlite::kPageBytes);
  return {page.begin(), page.end()};
}

class PageCheckVfsTest : public CatalogTest {
 protected:
  void FillFile() {
    std::vector<NewFact> many;
    for (int i = 0; i < 100; ++i) many.push_back(FactOf("f" + std::to_string(i), "fact number " + std::to_string(i)));
    Add(ns_, many);
    Close();
  }
  FileOpLog log_;
};

TEST_F(PageCheckVfsTest, EveryPageOfTheFileHasItsSum) {
  FillFile();
  const std::string bytes = Slurp(file());
  const auto pages = static_cast<uint32_t>(bytes.size() / sqlite::kPageBytes);
  ASSERT_GT(pages, 30u);
  EXPECT_EQ(bytes[sqlite::kReservedAt], 8);
  for (uint32_t number = 1; number <= pages; ++number) {
    const auto page = Page(bytes, number);
    EXPECT_EQ(sqlite::PageSum(page, number), sqlite::StoredPageSum(page)) << number;
    EXPECT_NE(sqlite::PageSum(page, number + 1), sqlite::StoredPageSum(page)) << "as another page";
  }
}

// Each byte counts, but for those that nothing reads.
TEST_F(PageCheckVfsTest, TheSumCoversAllButTheUnusedBytes) {
  FillFile();
  const std::string bytes = Slurp(file());
  size_t unused = 0;
  for (const uint32_t number : {1u, 2u, 3u}) {
    auto page = Page(bytes, number);
    const auto tree = sqlite::ReadTreePage(page, number);
    ASSERT_TRUE(tree);
    const uint64_t sum = sqlite::PageSum(page, number);
    for (size_t at = 0; at < page.size() - sqlite::kPageSumBytes; ++at) {
      const bool is_unused = at >= tree->begin && at < tree->end;
      unused += is_unused ? 1 : 0;
      page[at] ^= 1;
      ASSERT_EQ(sqlite::PageSum(page, number) == sum, is_unused) << "byte " << at << " of page " << number;
      page[at] ^= 1;
    }
  }
  EXPECT_GT(unused, 100u);
}

TEST_F(PageCheckVfsTest, APageThatIsShortOrZeroOrAnotherIsDamaged) {
  FillFile();
  const std::string bytes = Slurp(file());
  const size_t last = bytes.size() - sqlite::kPageBytes;
  const std::string zero = std::string(bytes).replace(last, sqlite::kPageBytes, sqlite::kPageBytes, '\0');
  const std::string moved = std::string(bytes).replace(last, sqlite::kPageBytes, bytes.substr(4096, 4096));
  const auto number = static_cast<uint32_t>(bytes.size() / sqlite::kPageBytes);
  for (const std::string& damaged : {bytes.substr(0, bytes.size() - 100), zero, moved}) {
    std::ofstream(file(), std::ios::binary | std::ios::trunc) << damaged;
    const auto db = sqlite::Connection::Open(file(), {"", true}).value();
    EXPECT_THAT(sqlite::DamagedPages(db->db()).value(), ElementsAre(number));
    const auto checked = db->Run("PRAGMA integrity_check");
    ASSERT_FALSE(checked);
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt) << checked.error().message;
  }
}

TEST_F(PageCheckVfsTest, AHeaderThatDeniesTheSumsIsRefused) {
  FillFile();
  std::string bytes = Slurp(file());
  bytes[sqlite::kReservedAt] = 0;
  std::ofstream(file(), std::ios::binary | std::ios::trunc) << bytes;
  EXPECT_EQ(CodeOf(OpenSqliteCatalog(folder_)), ErrorCode::kCorrupt);
}

// An older file is brought to this schema, and the power is cut at every operation of that.
TEST_F(PageCheckVfsTest, GivingSumsToAnOlderFileSurvivesAPowerCut) {
  Close();
  fs::remove(file());
  const RecordingVfs recording(folder_, &log_);
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open_v2(file().c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, recording.name().c_str()),
            SQLITE_OK);
  const std::string script = "PRAGMA journal_mode=WAL; BEGIN;" + Slurp(INFERSCALE_TEST_DATA "/catalog_v1.sql") +
                             "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)";
  ASSERT_EQ(sqlite3_exec(db, script.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  sqlite3_close(db);
  const size_t made = log_.size();
  ASSERT_TRUE(OpenSqliteCatalog(folder_, {.vfs = recording.name()}));
  const std::vector<FileOp> ops = log_.Copy();
  ASSERT_GT(ops.size(), made + 30);
  size_t old = 0;
  for (size_t cut = made; cut <= ops.size(); ++cut) {
    for (const Unsynced unsynced : {Unsynced::kTorn, Unsynced::kKept, Unsynced::kDropped}) {
      SCOPED_TRACE("cut " + std::to_string(cut) + " of " + std::to_string(made) + " to " + std::to_string(ops.size()));
      const fs::path disk = folder_ / "cut";
      fs::remove_all(disk);
      MakeAfterPowerCut(ops, cut, unsynced, cut, disk);
      old += Slurp(disk / "catalog.db")[sqlite::kReservedAt] == 0 ? 1 : 0;
      SqliteOpenReport report;
      const auto opened = OpenSqliteCatalog(disk, {}, &report);
      ASSERT_TRUE(opened) << opened.error().message;
      EXPECT_FALSE(report.changes_lost);
      const NamespaceId ns = (*opened)->FindNamespace("user:ada")->id;
      EXPECT_EQ((*opened)->History(ns, "f3")->at(1).old_text, "Ada has a cat");
      EXPECT_THAT((*opened)->Fsck(false).value(), IsEmpty());
      EXPECT_EQ(Slurp(disk / "catalog.db")[sqlite::kReservedAt], 8);
    }
  }
  EXPECT_GT(old, 10u);
  EXPECT_LT(old, 3 * (ops.size() - made) - 10);
}

}  // namespace
}  // namespace inferscale
