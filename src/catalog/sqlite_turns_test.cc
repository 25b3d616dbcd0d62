#include <gmock/gmock.h>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class SqliteTurnsTest : public CatalogTest {
 protected:
  PutTurnsResult Put(std::vector<NewTurn> turns) { return catalog().PutTurns(ns_, turns).value(); }
  void AddFactOf(std::string_view turn, std::string_view id) {
    NewFact fact = FactOf(id, "fact " + std::string(id));
    fact.turn = turn;
    Add(ns_, {fact});
  }
  std::vector<std::string> Ids(uint64_t first = 0, size_t count = 1000) {
    std::vector<std::string> ids;
    const auto turns = catalog().GetTurns(ns_, first, count).value();
    for (const TurnRow& turn : turns) ids.push_back(turn.id);
    return ids;
  }
};

TEST_F(SqliteTurnsTest, KeepsTurnsInTheirOrder) {
  EXPECT_EQ(Put({{"a", 5, "Ada", "hello", Date{2023, 5, 8}}, {"b", {}, "Bob", "hi", {}}, {"c", 1, "Ada", "before", {}}})
                .added,
            3u);
  Open();
  EXPECT_THAT(Ids(), ElementsAre("c", "a", "b"));
  EXPECT_THAT(Ids(5, 1), ElementsAre("a"));
  EXPECT_THAT(Ids(7, 100), IsEmpty());
  const TurnRow turn = catalog().FindTurn(ns_, "a").value();
  EXPECT_EQ(turn.ordinal, 5u);
  EXPECT_EQ(turn.speaker, "Ada");
  EXPECT_EQ(turn.text, "hello");
  EXPECT_EQ(turn.date, (Date{2023, 5, 8}));
  EXPECT_EQ(turn.version, 1u);
  EXPECT_EQ(catalog().FindTurn(ns_, "b")->ordinal, 6u) << "after the last one";
  EXPECT_EQ(CodeOf(catalog().FindTurn(ns_, "x")), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(catalog().FindTurn(Name("other"), "a")), ErrorCode::kNotFound);
  EXPECT_EQ(catalog().GetNamespace(ns_)->turns, 3u);
}

TEST_F(SqliteTurnsTest, OtherWordsAreANewVersion) {
  const auto first = Put({{"a", 1, "Ada", "hello", {}}});
  const uint64_t generation = catalog().GetNamespace(ns_)->generation;
  const auto same = Put({{"a", {}, "Ada", "hello", {}}});
  EXPECT_EQ(same.turns, first.turns);
  EXPECT_EQ(same.added + same.changed, 0u);
  EXPECT_EQ(catalog().GetNamespace(ns_)->generation, generation);
  EXPECT_EQ(Put({{"a", 1, "Bob", "hello", {}}}).changed, 1u) << "another speaker";
  EXPECT_EQ(Put({{"a", 4, "Bob", "hello", {}}}).changed, 1u) << "another place";
  const TurnRow turn = catalog().FindTurn(ns_, "a").value();
  EXPECT_EQ(turn.version, 2u) << "a place is no content";
  EXPECT_EQ(turn.ordinal, 4u);
  EXPECT_GT(catalog().GetNamespace(ns_)->generation, generation);
}

TEST_F(SqliteTurnsTest, ATurnGoesWithTheLastLiveFactThatHasIt) {
  Put({{"t", 0, "Ada", "I like tea and milk", {}}, {"u", 1, "Ada", "and sugar", {}}});
  AddFactOf("t", "f1");
  AddFactOf("t", "f2");
  AddFactOf("u", "f3");
  EXPECT_THAT(Delete(ns_, {"f1"}).change.turns, IsEmpty());
  EXPECT_THAT(Delete(ns_, {"f2"}).change.turns, SizeIs(1));
  EXPECT_THAT(Ids(), ElementsAre("u"));
  AddFactOf("u", "f4");
  ASSERT_TRUE(catalog().Supersede(ns_, "f3", "f4"));
  EXPECT_THAT(Delete(ns_, {"f3"}).change.turns, IsEmpty()) << "f4 is live and has it";
  EXPECT_THAT(Delete(ns_, {"f4"}).change.turns, SizeIs(1));
  EXPECT_EQ(catalog().GetNamespace(ns_)->turns, 0u);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(SqliteTurnsTest, DeletingBothFactsOfATurnInOneCallTakesIt) {
  Put({{"t", 0, "Ada", "text", {}}});
  AddFactOf("t", "f1");
  AddFactOf("t", "f2");
  EXPECT_THAT(Delete(ns_, {"f1", "f2"}).change.turns, SizeIs(1));
  Put({{"t", 0, "Ada", "text", {}}});
  AddFactOf("t", "f1");
  EXPECT_THAT(catalog().DeleteAllFacts(ns_)->change.turns, SizeIs(1));
  EXPECT_THAT(Ids(), IsEmpty());
}

TEST_F(SqliteTurnsTest, AFailedBatchChangesNothing) {
  const auto refused = [&](NewTurn turn) {
    return CodeOf(catalog().PutTurns(ns_, std::vector<NewTurn>{{"ok", 0, "Ada", "text", {}}, std::move(turn)}));
  };
  EXPECT_EQ(refused({"", 1, "Ada", "text", {}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({"x", 1, "Ada", "", {}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({"x", UINT64_MAX, "Ada", "text", {}}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused({"x", 1, "Ada", std::string(limits::kFactBytes + 1, 'x'), {}}), ErrorCode::kTooLarge);
  EXPECT_THAT(Ids(), IsEmpty());
}

}  // namespace
}  // namespace inferscale
