#include "core/fact.h"

#include <gtest/gtest.h>

namespace inferscale {
namespace {

Fact MakeFact(std::string id, std::optional<Date> date = std::nullopt, std::string text = "x") {
  Fact fact;
  fact.id = std::move(id);
  fact.date = date;
  fact.text = std::move(text);
  return fact;
}

std::string Ids(const std::vector<Fact>& facts) {
  std::string ids;
  for (const Fact& fact : facts) ids += fact.id;
  return ids;
}

TEST(FactTest, PromptTextIsOneLine) {
  EXPECT_EQ(MakeFact("a", Date{2023, 5, 8}, "Nora has a cat").PromptText(), "(8 May 2023) Nora has a cat\n");
  EXPECT_EQ(MakeFact("a", std::nullopt, "Nora has a cat").PromptText(), "Nora has a cat\n");
  EXPECT_EQ(MakeFact("a", std::nullopt, "a\nb\r\nc\rd\n\ne\n").PromptText(), "a b c d  e\n");
  EXPECT_EQ(MakeFact("a", std::nullopt, "a\u0085b\u2028c\u2029d\ve\f").PromptText(), "a b c d e\n");
  EXPECT_EQ(MakeFact("a", std::nullopt, "  Zoë\tß \u200b漢字 ").PromptText(), "Zoë\tß \u200b漢字\n");
  EXPECT_EQ(MakeFact("a", std::nullopt, " \n ").PromptText(), "\n");
}

TEST(FactTest, TurnPromptText) {
  EXPECT_EQ((Turn{"t1", "Nora", "Hi\nthere", std::nullopt}).PromptText(), "Nora: Hi there\n");
  EXPECT_EQ((Turn{"t1", "", "Hi", Date{2023, 5, 8}}).PromptText(), "Hi\n");
}

TEST(FactTest, SortsByDateAndKeepsArrivalOrder) {
  const Date may{2023, 5, 8}, june{2023, 6, 1};
  std::vector<Fact> facts = {MakeFact("a", june), MakeFact("b", may), MakeFact("c", june), MakeFact("d", may)};
  SortByEventTime(facts);
  EXPECT_EQ(Ids(facts), "bdac");
}

TEST(FactTest, UndatedFactsHappenWithTheDatedOneBefore) {
  const Date may{2023, 5, 8}, june{2023, 6, 1};
  std::vector<Fact> facts = {MakeFact("a"), MakeFact("b", june), MakeFact("c"), MakeFact("d", may), MakeFact("e")};
  SortByEventTime(facts);
  EXPECT_EQ(Ids(facts), "adebc");  // a before all; e happened with d, c with b
  std::vector<Fact> undated = {MakeFact("b"), MakeFact("a"), MakeFact("c")};
  SortByEventTime(undated);
  EXPECT_EQ(Ids(undated), "bac");
  std::vector<Fact> none;
  SortByEventTime(none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace inferscale
