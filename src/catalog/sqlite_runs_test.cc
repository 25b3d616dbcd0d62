#include <gmock/gmock.h>

#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SqliteRunsTest : public CatalogTest {
 protected:
  void SetUp() override {
    CatalogTest::SetUp();
    for (const char* id : {"a", "b", "c", "d"}) seqs_.push_back(AddText(ns_, id, std::string("text ") + id));
  }
  static RunFact Fact(std::string id, uint32_t version = 1) { return {std::move(id), version, {version, 7}, 9}; }
  static FactRun Run(std::vector<RunFact> anchor, std::vector<RunFact> members, bool closed = false) {
    const auto chosen = static_cast<uint32_t>(anchor.size());
    return {std::move(anchor), std::move(members), chosen, closed, false};
  }
  std::vector<StoredRun> Save(std::vector<FactRun> runs) { return catalog().SaveRuns(ns_, runs).value(); }
  std::vector<StoredRun> Load() { return catalog().LoadRuns(ns_).value(); }
  std::vector<FactSeq> seqs_;
};

TEST_F(SqliteRunsTest, KeepsRunsWithTheirNumbers) {
  const FactRun first = Run({}, {Fact("a"), Fact("b")}, true), second = Run({Fact("a"), Fact("b")}, {Fact("c")});
  const auto saved = Save({first, second});
  ASSERT_THAT(saved, SizeIs(2));
  EXPECT_LT(saved[0].number, saved[1].number);
  Open();
  auto loaded = Load();
  ASSERT_THAT(loaded, SizeIs(2));
  EXPECT_EQ(loaded[0].run, first);
  EXPECT_EQ(loaded[1].run, second);
  EXPECT_EQ(loaded[1].number, saved[1].number);
  // The run grows: the same number.
  const FactRun grown = Run({Fact("a"), Fact("b")}, {Fact("c"), Fact("d")});
  EXPECT_EQ(Save({first, grown})[1].number, saved[1].number);
  EXPECT_EQ(Load()[1].run, grown);
  // One is gone, and its facts in a new one: a new number, never an old one.
  const auto again = Save({grown, Run({}, {Fact("a")})});
  EXPECT_EQ(again[0].number, saved[1].number);
  EXPECT_GT(again[1].number, saved[1].number);
  EXPECT_THAT(Load(), SizeIs(2));
  EXPECT_THAT(catalog().LoadRuns(Name("other")).value(), IsEmpty());
}

TEST_F(SqliteRunsTest, FactsThatAreGoneAreStruck) {
  Save({Run({Fact("a")}, {Fact("b"), Fact("c")}, true), Run({Fact("b"), Fact("c")}, {Fact("d")})});
  Delete(ns_, {"b"});
  auto loaded = Load();
  ASSERT_THAT(loaded, SizeIs(2));
  EXPECT_THAT(loaded[0].run.members, ElementsAre(Fact("c")));
  EXPECT_TRUE(loaded[0].run.closed);
  EXPECT_THAT(loaded[1].run.anchor, ElementsAre(Fact("c")));
  EXPECT_EQ(loaded[1].run.anchor_chosen, 2u);
  Save({Run({Fact("nobody")}, {Fact("c")})});
  EXPECT_THAT(Load().at(0).run.anchor, IsEmpty()) << "unknown facts are left out";
  Delete(ns_, {"c"});
  EXPECT_THAT(Load(), IsEmpty()) << "a run without members";
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(SqliteRunsTest, CountsWhatWentStale) {
  const FactRun first = Run({}, {Fact("a"), Fact("b")}, true), second = Run({Fact("a"), Fact("b")}, {Fact("c")});
  const FactRun third = Run({}, {Fact("d")});
  const auto counts = [&] {
    std::vector<uint32_t> all;
    const auto loaded = Load();
    for (const StoredRun& run : loaded) all.push_back(run.stale_count);
    return all;
  };
  Save({first, second, third});
  for (const FactSeq fact : seqs_) PutRecord(ns_, fact, {});
  PutRecord(ns_, seqs_[1], {seqs_[0]});
  PutRecord(ns_, seqs_[2], {seqs_[0], seqs_[1]});
  EXPECT_THAT(counts(), ElementsAre(0, 0, 0));
  (void)catalog().UpdateFact(ns_, "b", {.content = ContentOf("changed")});
  EXPECT_THAT(counts(), ElementsAre(1, 1, 0)) << "b's own run, and c's, whose record saw it";
  EXPECT_THAT(Save({first, second, third})[1].stale_count, 1u) << "saving keeps it";
  Delete(ns_, {"a"});
  EXPECT_THAT(counts(), ElementsAre(2, 2, 0)) << "the anchor lost an entry, so its encode salt changes";
}

}  // namespace
}  // namespace inferscale
