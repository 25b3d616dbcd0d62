// Search data: postings, vectors, the embedder.
#include <gmock/gmock.h>

#include <map>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class SqlitePostingsTest : public CatalogTest {
 protected:
  TermPostings Of(NamespaceId ns, const std::string& term, size_t cap = 1000) {
    return catalog().Postings(ns, std::vector<std::string>{term}, cap)->at(0);
  }
  std::map<std::string, std::vector<float>> Vectors() {
    std::map<std::string, std::vector<float>> vectors;
    const auto stats = catalog().ScanFacts(ns_, {.with_vector = true}, [&](const ScanRow& row) {
      vectors[row.fact.id].assign(row.vector.begin(), row.vector.end());
      return true;
    });
    EXPECT_EQ(stats->damaged_vectors, 0u);
    return vectors;
  }
};

TEST_F(SqlitePostingsTest, StatisticsAreOfOneNamespace) {
  const NamespaceId other = Name("other");
  const FactSeq a = AddText(ns_, "a", "tea with tea"), b = AddText(ns_, "b", "tea and milk");
  for (int i = 0; i < 5; ++i) AddText(other, "o" + std::to_string(i), "tea milk " + std::to_string(i));
  EXPECT_EQ(Of(ns_, "tea").facts, 2u);
  EXPECT_THAT(Of(ns_, "tea").postings, ElementsAre(Posting{a, 2}, Posting{b, 1}));
  EXPECT_EQ(Of(other, "tea").facts, 5u);
  EXPECT_EQ(Of(ns_, "coffee").facts, 0u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->searchable, 2u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->words, 6u);
  const TermPostings common = Of(ns_, "tea", 1);
  EXPECT_TRUE(common.too_common);
  EXPECT_EQ(common.facts, 2u);
  EXPECT_THAT(common.postings, IsEmpty());
  EXPECT_EQ(CodeOf(catalog().Postings(ns_, std::vector<std::string>(limits::kTermsPerQuery + 1, "x"), 1)),
            ErrorCode::kTooLarge);
}

TEST_F(SqlitePostingsTest, FollowUpdatesAndDeletions) {
  AddText(ns_, "a", "tea");
  const FactSeq b = AddText(ns_, "b", "tea milk");
  (void)catalog().UpdateFact(ns_, "b", {.content = ContentOf("coffee milk milk")});
  EXPECT_THAT(Of(ns_, "milk").postings, ElementsAre(Posting{b, 2}));
  EXPECT_THAT(Of(ns_, "coffee").postings, SizeIs(1));
  Delete(ns_, {"a"});
  EXPECT_EQ(Of(ns_, "tea").facts, 0u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->words, 3u);
  Delete(ns_, {"b"});
  EXPECT_EQ(catalog().GetNamespace(ns_)->searchable, 0u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->words, 0u);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(SqlitePostingsTest, AScanGivesTheVectorsOfWhatIsSearched) {
  AddText(ns_, "a", "tea");
  Add(ns_, {LongFact("l", {"x", "y"})});
  const auto vectors = Vectors();
  EXPECT_THAT(vectors, SizeIs(3)) << "parts, and not their parent";
  EXPECT_EQ(vectors.at("a"), SearchOf("tea").vector);
  EXPECT_EQ(vectors.at("l#2"), SearchOf("y").vector);
  size_t rows = 0;
  const auto counted = catalog().ScanFacts(ns_, {.parents = true}, [&](const ScanRow& row) {
    EXPECT_TRUE(row.vector.empty());
    return ++rows < 3;
  });
  EXPECT_EQ(counted->rows, 3u) << "it stops when told";
}

TEST_F(SqlitePostingsTest, AnotherEmbedderIsRefusedUntilAllIsEmbeddedAnew) {
  AddText(ns_, "a", "tea");
  Add(ns_, {LongFact("l", {"x", "y"})});
  const EmbedderInfo larger{"larger", {3, 4}, kTestDims + 1};
  const Status refused = catalog().UseEmbedder(larger);
  EXPECT_EQ(CodeOf(refused), ErrorCode::kMismatch);
  for (const char* part : {"test embedder (4 dimensions)", "larger (5 dimensions)", "inferscale reembed"})
    EXPECT_THAT(refused.error().message, HasSubstr(part));
  EmbedderInfo renamed = kTestEmbedder;
  renamed.name = "the same in another folder";
  EXPECT_TRUE(catalog().UseEmbedder(renamed));
  EXPECT_THAT(catalog().FactsToEmbed(0, 100).value(), IsEmpty());

  ASSERT_TRUE(catalog().SwitchEmbedder(larger));
  EXPECT_EQ(catalog().CurrentEmbedder().value(), larger);
  auto todo = catalog().FactsToEmbed(0, 2).value();
  ASSERT_THAT(todo, SizeIs(2)) << "a whole fact and a part";
  EXPECT_TRUE(Vectors().at("a").empty()) << "the old ones are of other dimensions";
  std::vector<FactVector> vectors;
  for (const FactRow& row : todo) {
    SearchData search = SearchOf(row.text + " again");
    search.vector.push_back(1);
    vectors.push_back({row.seq, row.version, search});
  }
  vectors[1].version = 2;  // changed meanwhile
  ASSERT_TRUE(catalog().PutVectors(vectors));
  EXPECT_THAT(Vectors().at("a"), SizeIs(kTestDims + 1));
  EXPECT_EQ(Of(ns_, "again").facts, 1u);
  EXPECT_THAT(catalog().FactsToEmbed(0, 100).value(), SizeIs(2));
  EXPECT_THAT(catalog().FactsToEmbed(vectors[1].fact, 100).value(), SizeIs(1));
  vectors[0].search.vector.pop_back();
  EXPECT_EQ(CodeOf(catalog().PutVectors(vectors)), ErrorCode::kMismatch);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(SqlitePostingsTest, TheEmbedderIsNamedFirst) {
  Close();
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directory(folder_);
  auto fresh = OpenSqliteCatalog(folder_).value();
  const NamespaceId ns = fresh->OpenNamespace("x").value();
  EXPECT_EQ(fresh->CurrentEmbedder().value(), std::nullopt);
  EXPECT_EQ(CodeOf(fresh->AddFacts(ns, std::vector<NewFact>{FactOf("", "text")}, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(fresh->UseEmbedder({"none", {1, 1}, 0})), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace inferscale
