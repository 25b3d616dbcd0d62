#include "core/sticky_plan.h"

#include <gtest/gtest.h>

#include <set>

namespace inferscale {
namespace {

using Messages = std::vector<std::pair<std::string, std::string>>;

Hash128 Key(const std::string& text) { return ConversationKey(Messages{{"user", text}}); }
const auto kAllLive = [](const FactVersion&) { return true; };

TEST(StickyPlanTest, ConversationKeyTellsMessagesApart) {
  const std::vector<Messages> conversations = {{},
                                               {{"user", "ab"}},
                                               {{"user", "a"}, {"user", "b"}},
                                               {{"usera", "b"}},
                                               {{"assistant", "ab"}},
                                               {{"user", "ab"}, {"assistant", ""}}};
  std::set<std::string> keys;
  for (const Messages& messages : conversations) keys.insert(ConversationKey(messages).Hex());
  EXPECT_EQ(keys.size(), conversations.size());
}

TEST(StickyPlanTest, KeepsAPlanWhileItsFactsLive) {
  StickyPlanBook book(4);
  EXPECT_EQ(book.Find(Key("a"), kAllLive), nullptr);
  book.Keep(Key("a"), {{{"f1", 1}, {"f2", 1}}, {{}, {{"f3", 2}}}});
  const StickyPlan* plan = book.Find(Key("a"), kAllLive);
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(plan->injected.size(), 2u);
  for (const char* gone : {"f2", "f3"}) {  // one injected, one added as text later
    StickyPlanBook copy(4);
    copy.Keep(Key("a"), *plan);
    EXPECT_EQ(copy.Find(Key("a"), [&](const FactVersion& f) { return f.id != gone; }), nullptr);
    EXPECT_EQ(copy.size(), 0u) << "a plan that no longer holds is forgotten";
    EXPECT_EQ(copy.Find(Key("a"), kAllLive), nullptr);
  }
  EXPECT_EQ(book.Find(Key("a"), [](const FactVersion& f) { return f != FactVersion{"f3", 2}; }), nullptr);
}

TEST(StickyPlanTest, ForgetsTheLeastRecentlyUsed) {
  StickyPlanBook book(2);
  book.Keep(Key("a"), {});
  book.Keep(Key("b"), {});
  EXPECT_NE(book.Find(Key("a"), kAllLive), nullptr);  // now b is the oldest
  book.Keep(Key("c"), {});
  EXPECT_EQ(book.size(), 2u);
  EXPECT_EQ(book.Find(Key("b"), kAllLive), nullptr);
  EXPECT_NE(book.Find(Key("a"), kAllLive), nullptr);
  EXPECT_NE(book.Find(Key("c"), kAllLive), nullptr);
}

TEST(StickyPlanTest, KeepingAgainReplaces) {
  StickyPlanBook book(1);
  book.Keep(Key("a"), {{{"f1", 1}}, {}});
  book.Keep(Key("a"), {{{"f2", 1}}, {}});
  EXPECT_EQ(book.size(), 1u);
  EXPECT_EQ(book.Find(Key("a"), kAllLive)->injected[0].id, "f2");
}

TEST(StickyPlanTest, NewFactsInRankOrder) {
  const StickyPlan plan = {{{"f1", 1}, {"f2", 1}}, {{{"f3", 1}}}};
  const std::vector<FactVersion> ranked = {{"f9", 1}, {"f2", 1}, {"f4", 3}, {"f3", 1}, {"f9", 1}};
  EXPECT_EQ(StickyPlanBook::NewFacts(plan, ranked), (std::vector<FactVersion>{{"f9", 1}, {"f4", 3}}));
  EXPECT_TRUE(StickyPlanBook::NewFacts(plan, {}).empty());
}

}  // namespace
}  // namespace inferscale
