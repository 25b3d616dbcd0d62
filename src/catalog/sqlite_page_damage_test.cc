// Damaged pages: nobody reads past one without a word, and what can be repaired is.
#include <gmock/gmock.h>

#include <algorithm>

#include "catalog/damage_test_util.h"
#include "catalog/sqlite_connection.h"
#include "catalog/sqlite_page.h"

namespace inferscale {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class SqlitePageDamageTest : public DamageTest {
 protected:
  void CheckPage(const std::string& bytes, size_t at, const Contents& truth);
  size_t refused_ = 0, found_ = 0;
};

// One bit of a page is another one. The plain calls say so, or give all that they gave before; Fsck says so; and after
// its repair no page is damaged.
void SqlitePageDamageTest::CheckPage(const std::string& bytes, size_t at, const Contents& truth) {
  std::unique_ptr<Catalog> opened = OpenFlipped(bytes, at, 8);
  if (opened == nullptr) {
    ++refused_;
    auto trusting = OpenSqliteCatalog(folder_, {.check_pages = false});
    if (!trusting) return;  // SQLite's own header, or a definition
    opened = std::move(*trusting);
  } else {
    const Contents found = Read(*opened);
    ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(found, truth));
    ASSERT_NO_FATAL_FAILURE(ExpectNothingMissing(found, truth));
    found_ += found.noticed ? 1 : 0;
  }
  const auto findings = opened->Fsck(false);
  const auto says = [](const FsckFinding& finding) { return finding.what.find("damaged") != std::string::npos; };
  ASSERT_TRUE(!findings || std::any_of(findings->begin(), findings->end(), says));
  const auto repaired = opened->Fsck(true);
  if (!repaired) return;
  const bool mended = std::any_of(repaired->begin(), repaired->end(), [](const FsckFinding& finding) {
    return finding.repaired && finding.what.starts_with("1 pages of the database");
  });
  opened.reset();
  const auto again = OpenSqliteCatalog(folder_);
  if (!mended) return;
  ASSERT_TRUE(again) << again.error().message;
  const Contents after = Read(**again);
  ASSERT_NO_FATAL_FAILURE(ExpectNothingWrong(after, truth));
  for (const FsckFinding& finding : *repaired)
    if (!finding.repaired) return;  // reported as lost
  ASSERT_EQ(after.texts, truth.texts);
}

TEST_F(SqlitePageDamageTest, AFlippedBitInAnyKindOfPageIsNoticed) {
  names_.emplace_back("other");
  ASSERT_NO_FATAL_FAILURE(Fill());
  Open();
  const NamespaceId other = Name("other");
  std::vector<NewFact> many;
  for (int i = 0; i < 600; ++i) many.push_back(FactOf("m" + std::to_string(i), "word" + std::to_string(i) + " fact"));
  Add(other, many);
  for (int i = 0; i < 4; ++i) AddText(other, "free" + std::to_string(i), Long("zero" + std::to_string(i)));
  Delete(other, {"free0", "free1", "free2", "free3"});  // and their pages are free
  ASSERT_TRUE(catalog().Scrub());
  Close();
  const Contents truth = Read(*OpenSqliteCatalog(folder_).value());
  const std::string bytes = Bytes();
  std::map<char, size_t> kinds;  // by the page's first byte: b-trees of four kinds, else overflow and free ones
  for (size_t page = 0; page < bytes.size(); page += 4096) {
    ++kinds[page == 0 ? 'S' : bytes[page]];
    const std::vector<uint8_t> copy(bytes.begin() + static_cast<std::ptrdiff_t>(page),
                                    bytes.begin() + static_cast<std::ptrdiff_t>(page + 4096));
    const auto tree = sqlite::ReadTreePage(copy, static_cast<uint32_t>(page / 4096 + 1));
    const size_t in_a_cell = page + (tree ? tree->end + (4088 - tree->end) / 2 : 2048);
    for (const size_t at : {page + (page == 0 ? 104 : 4), in_a_cell, page + 4092}) {
      SCOPED_TRACE("byte " + std::to_string(at % 4096) + " of page " + std::to_string(page / 4096 + 1));
      ASSERT_NO_FATAL_FAILURE(CheckPage(bytes, at, truth));
    }
  }
  for (const char kind : {2, 5, 10, 13, 0}) EXPECT_GT(kinds[kind], 0u) << int(kind);
  EXPECT_GT(refused_, 5u);
  EXPECT_GT(found_, bytes.size() / 4096) << "of three times as many";
}

// What a tester saw: an index that leads to no row any more, and nobody says so.
TEST_F(SqlitePageDamageTest, AnIndexThatLostItsRowsIsAnErrorAndIsMadeAgain) {
  std::vector<NewFact> many;
  for (int i = 0; i < 60; ++i) many.push_back(FactOf("f" + std::to_string(i), "fact number " + std::to_string(i)));
  Add(ns_, many);
  ASSERT_TRUE(catalog().Scrub());
  const auto root = [&](const char* index) {
    const auto db = sqlite::Connection::Open(file(), {"", true}).value();
    return static_cast<size_t>(
        db->Value("SELECT rootpage FROM sqlite_schema WHERE name=?", std::string_view(index)).value().value());
  };
  const size_t by_seq = (root("facts_by_seq") - 1) * 4096, by_id = (root("facts_by_id") - 1) * 4096;
  Close();
  const std::string bytes = Bytes();
  for (const size_t page : {by_seq, by_id}) {
    std::unique_ptr<Catalog> opened = OpenFlipped(bytes, page + 4, 32);  // its number of cells
    ASSERT_NE(opened, nullptr);
    const auto listed = opened->ListFacts(ns_, {});
    const auto found = opened->GetFact(ns_, "f7");
    const auto other = page == by_seq ? CodeOf(listed) : CodeOf(found);
    EXPECT_EQ(other, ErrorCode::kCorrupt);
    EXPECT_THAT((page == by_seq ? listed.error() : found.error()).message, HasSubstr("fsck --repair"));
    EXPECT_THAT(opened->Fsck(false).value(), Not(IsEmpty()));
    EXPECT_EQ(page == by_seq ? CodeOf(opened->ListFacts(ns_, {})) : CodeOf(opened->GetFact(ns_, "f7")),
              ErrorCode::kCorrupt)
        << "to look repairs nothing";
    const auto repaired = opened->Fsck(true).value();
    for (const FsckFinding& finding : repaired) EXPECT_TRUE(finding.repaired) << finding.what;
    EXPECT_THAT(opened->Fsck(false).value(), IsEmpty());
    EXPECT_EQ(opened->ListFacts(ns_, {})->size(), 60u);
    EXPECT_EQ(opened->GetFact(ns_, "f7")->text, "fact number 7");
    opened.reset();
    EXPECT_EQ(OpenSqliteCatalog(folder_).value()->ListFacts(ns_, {})->size(), 60u);
  }
}

// Nothing that is written while damaged pages are read as they are makes the damage unseen.
TEST_F(SqlitePageDamageTest, ADamagedPageStaysDamagedUntilItIsRepaired) {
  AddText(ns_, "f", "a text of its own");
  Close();
  const std::string bytes = Bytes();
  ASSERT_NE(OpenFlipped(bytes, bytes.find("a text of its own"), 1), nullptr);
  {
    const auto trusting = OpenSqliteCatalog(folder_, {.check_pages = false}).value();
    ASSERT_TRUE(trusting->UseEmbedder(kTestEmbedder));
    ASSERT_TRUE(trusting->AddFacts(ns_, std::vector<NewFact>{FactOf("g", "on the same page")}, {}));
  }
  {
    const auto checking = OpenSqliteCatalog(folder_).value();
    EXPECT_EQ(CodeOf(checking->ListFacts(ns_, {})), ErrorCode::kCorrupt);
    EXPECT_THAT(checking->Fsck(true).value(), Not(IsEmpty()));
    EXPECT_EQ(checking->ListFacts(ns_, {})->size(), 1u);
    EXPECT_EQ(checking->ScanFacts(ns_, {}, [](const ScanRow&) { return true; })->damaged_facts, 1u);
    EXPECT_EQ(CodeOf(checking->GetFact(ns_, "f")), ErrorCode::kCorrupt) << "damaged until it is deleted";
  }
  Open();
  EXPECT_EQ(Delete(ns_, {"f"}).deleted, 1u);
  EXPECT_THAT(Findings(), IsEmpty());
}

}  // namespace
}  // namespace inferscale
