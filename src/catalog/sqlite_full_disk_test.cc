// A disk that is full, as the process sees it when it may write no larger files.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include "catalog/catalog_test_util.h"
#include "catalog/sqlite_connection.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

// While it lives, no file of this process grows beyond so many bytes.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(size_t bytes) {
    EXPECT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    signal_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;
  ~FileSizeLimit() {
    EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0);
    ::signal(SIGXFSZ, signal_);
  }

 private:
  rlimit before_{};
  sighandler_t signal_ = SIG_DFL;
};

class SqliteFullDiskTest : public CatalogTest {
 protected:
  static void ExpectFull(const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kNoSpace) << error.message;
    EXPECT_THAT(error.message, HasSubstr("the disk is full; free some space"));
    EXPECT_THAT(error.message, testing::Not(HasSubstr("I/O error")));
  }
};

TEST_F(SqliteFullDiskTest, AnAdditionThatDoesNotFitSaysSoAndChangesNothing) {
  ASSERT_TRUE(catalog().Scrub());
  size_t added = 0;
  {
    const FileSizeLimit limit(300'000);
    for (;; ++added) {
      const std::vector<NewFact> fact = {FactOf("f" + std::to_string(added), "fact " + std::to_string(added))};
      const auto result = catalog().AddFacts(ns_, fact, {});
      if (!result) {
        ExpectFull(result.error());
        break;
      }
    }
  }
  EXPECT_GT(added, 2u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, added);
  AddText(ns_, "after", "there is room again");
  EXPECT_THAT(Findings(), IsEmpty());
}

// Each of the files is the one that does not fit.
TEST_F(SqliteFullDiskTest, ANewCatalogThatDoesNotFitSaysSo) {
  size_t refused = 0;
  for (size_t bytes = 0; bytes <= 300'000; bytes = bytes * 3 / 2 + 1000) {
    SCOPED_TRACE(bytes);
    const fs::path folder = folder_ / std::to_string(bytes);
    fs::create_directory(folder);
    {
      const FileSizeLimit limit(bytes);
      const auto opened = OpenSqliteCatalog(folder);
      if (!opened) {
        ++refused;
        ExpectFull(opened.error());
      }
    }
    EXPECT_TRUE(OpenSqliteCatalog(folder)) << "there is room again";
  }
  EXPECT_GT(refused, 5u);
}

// SQLite has several codes for it.
TEST_F(SqliteFullDiskTest, WhatSqliteSaysIsUnderstood) {
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_SHMSIZE})
    ExpectFull(sqlite::SqliteError(nullptr, code, "run a statement"));
  EXPECT_EQ(sqlite::SqliteError(nullptr, SQLITE_IOERR_WRITE, "run a statement").code, ErrorCode::kIo);
}

}  // namespace
}  // namespace inferscale
