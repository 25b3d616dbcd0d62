// An open catalog with one namespace, in a folder of its own (in memory where there is such a file system: a sync costs
// nothing there), with a clock that the test turns; and facts made of plain words.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/sqlite_catalog.h"

namespace inferscale {

inline constexpr uint32_t kTestDims = 4;
inline constexpr Micros kTestStart = 1'700'000'000'000'000;  // 14 November 2023
inline constexpr Micros kTestDay = 24ll * 3600 * 1'000'000;

class CatalogTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  void Open(SqliteOptions options = {});  // again: closes first
  void Close() { catalog_.reset(); }
  Catalog& catalog() { return *catalog_; }
  std::filesystem::path file() const { return folder_ / "catalog.db"; }

  template <class T>
  static ErrorCode CodeOf(const Result<T>& result) {
    EXPECT_FALSE(result.has_value());
    return result ? ErrorCode::kInternal : result.error().code;
  }
  NamespaceId Name(std::string_view name);  // opens the namespace
  AddResult Add(NamespaceId ns, std::vector<NewFact> facts, AddOptions options = {});
  FactSeq AddText(NamespaceId ns, std::string_view id, std::string_view text);
  DeleteResult Delete(NamespaceId ns, std::vector<std::string> ids);
  // One usable record of a fact, which saw the given facts at their present versions.
  KvRow Record(NamespaceId ns, FactSeq fact, std::vector<FactSeq> saw);
  KvRow PutRecord(NamespaceId ns, FactSeq fact, std::vector<FactSeq> saw);
  std::vector<RecordSeq> Usable(NamespaceId ns);
  std::vector<FactSeq> Queued(NamespaceId ns);
  std::vector<RecordSeq> Erasing();
  std::vector<std::string> Findings(bool repair = false);  // of Fsck; "+" before what was repaired
  // Changes the file behind the catalog's back, while it is closed or open.
  void Sql(const std::string& script);

  std::filesystem::path folder_;
  std::atomic<Micros> now_{kTestStart};
  std::unique_ptr<Catalog> catalog_;
  NamespaceId ns_ = 0;  // "user:ada"
};

inline constexpr ModelKey kTestModel{11, 22};
inline const EmbedderInfo kTestEmbedder{"test embedder", {1, 2}, kTestDims};

// Words between spaces, counted; a vector that depends on the text alone.
SearchData SearchOf(std::string_view text);
FactContent ContentOf(std::string_view text, std::optional<Date> date = std::nullopt);
NewFact FactOf(std::string_view id, std::string_view text);
// A parent whose parts are the given texts.
NewFact LongFact(std::string_view id, const std::vector<std::string>& parts);

}  // namespace inferscale
