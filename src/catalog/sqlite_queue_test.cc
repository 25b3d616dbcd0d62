#include <gmock/gmock.h>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class SqliteQueueTest : public CatalogTest {
 protected:
  FactSeq AddDated(NamespaceId ns, std::string_view id, Date day, std::optional<Micros> due = 0) {
    NewFact fact = FactOf(id, "fact " + std::string(id));
    fact.content.date = day;
    return Add(ns, {fact}, {"", due}).facts[0].seq;
  }
  std::vector<FactSeq> Due(size_t limit = 100) {
    std::vector<FactSeq> facts;
    const auto items = catalog().DueFacts(limit).value();
    for (const QueueItem& item : items) facts.push_back(item.fact);
    return facts;
  }
};

TEST_F(SqliteQueueTest, IsInOrderOfTimeWithinANamespaceAndOutlivesARestart) {
  const FactSeq late = AddDated(ns_, "late", {2023, 5, 9}), early = AddDated(ns_, "early", {2023, 5, 8});
  const FactSeq other = AddDated(Name("other"), "other", {2020, 1, 1});
  const FactSeq not_queued = AddDated(ns_, "no", {2023, 5, 8}, std::nullopt);
  Open();
  EXPECT_THAT(Due(), ElementsAre(early, late, other));
  EXPECT_THAT(Due(1), ElementsAre(early));
  EXPECT_THAT(Queued(ns_), ElementsAre(early, late));
  ASSERT_TRUE(catalog().Enqueue(std::vector<FactSeq>{other, 999}, 5, kTestStart));
  EXPECT_THAT(Due(), ElementsAre(other, early, late)) << "the larger priority first";
  EXPECT_EQ(catalog().EnqueueAll(ns_).value(), 3u);
  EXPECT_THAT(Queued(ns_), ElementsAre(early, not_queued, late));
  ASSERT_TRUE(catalog().Dequeue(std::vector<FactSeq>{early, 999}));
  EXPECT_THAT(Queued(ns_), ElementsAre(not_queued, late));
}

TEST_F(SqliteQueueTest, FactsAreDueWhenTheirTimeHasCome) {
  const FactSeq fact = AddDated(ns_, "f", {2023, 5, 8}, kTestStart + 60);
  EXPECT_THAT(Due(), IsEmpty());
  EXPECT_THAT(Queued(ns_), ElementsAre(fact));
  const QueueCounts counts = catalog().CountQueue().value();
  EXPECT_EQ(counts.queued, 1u);
  EXPECT_EQ(counts.due, 0u);
  now_ = kTestStart + 60;
  EXPECT_THAT(Due(), ElementsAre(fact));
  ASSERT_TRUE(catalog().Enqueue(std::vector<FactSeq>{fact}, -3, kTestStart + 500));
  EXPECT_EQ(catalog().QueuedFacts(ns_)->at(0).due_us, kTestStart + 60) << "the earlier instant";
  EXPECT_EQ(catalog().QueuedFacts(ns_)->at(0).priority, 0) << "the larger priority";
}

TEST_F(SqliteQueueTest, AFailureWaitsTwiceAsLongEachTimeUpToACap) {
  const FactSeq fact = AddDated(ns_, "f", {2023, 5, 8});
  Micros expected = limits::kEncodeBackoffMicros;
  for (uint32_t attempt = 1; attempt <= 20; ++attempt) {
    ASSERT_TRUE(catalog().EncodeFailed(std::vector<FactSeq>{fact, 999}, "no engine"));
    const QueueItem item = catalog().QueuedFacts(ns_)->at(0);
    EXPECT_EQ(item.attempts, attempt);
    EXPECT_EQ(item.due_us, now_ + std::min(expected, limits::kEncodeBackoffMaxMicros)) << attempt;
    EXPECT_EQ(item.last_error, "no engine");
    expected *= 2;
  }
  EXPECT_EQ(catalog().CountQueue()->failing, 1u);
  EXPECT_THAT(Due(), IsEmpty());
  ASSERT_TRUE(catalog().EncodeFailed(std::vector<FactSeq>{fact}, std::string(10'000, 'x')));
  EXPECT_LE(catalog().QueuedFacts(ns_)->at(0).last_error.size(), 500u);
}

TEST_F(SqliteQueueTest, WhatIsNotEncodedIsNotQueued) {
  const FactSeq a = AddText(ns_, "a", "one"), b = AddText(ns_, "b", "two");
  const AddedFact parent = Add(ns_, {LongFact("l", {"x", "y"})}).facts[0];
  ASSERT_TRUE(catalog().Supersede(ns_, "a", "b"));
  EXPECT_THAT(Queued(ns_), ElementsAre(b, parent.parts[0], parent.parts[1]));
  ASSERT_TRUE(catalog().Enqueue(std::vector<FactSeq>{a, parent.seq}, 1, 0));
  EXPECT_EQ(catalog().EnqueueAll(ns_).value(), 3u);
  EXPECT_THAT(Queued(ns_), ElementsAre(b, parent.parts[0], parent.parts[1]));
  Delete(ns_, {"b", "l"});
  EXPECT_THAT(Queued(ns_), IsEmpty()) << "a deletion cancels";
  EXPECT_EQ(catalog().CountQueue()->queued, 0u);
}

}  // namespace
}  // namespace inferscale
