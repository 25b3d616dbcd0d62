// One namespace's results, with a neighbour and without.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

// Ids, ranks, scores and bytes of one namespace, with a neighbour that has the same texts and without.
class IsolationTest : public MemoryTest {
 protected:
  static std::string Text(uint64_t number) {
    return "likes thing" + std::to_string(number % 40) + " on day " + std::to_string(number % 7);
  }
  void StepOfA(int step);
  void StepOfB();
  std::string ResultsOfA();
  std::string Run(bool with_b);

  std::mt19937_64 random_a_{1}, random_b_{2};
};

void IsolationTest::StepOfA(int step) {
  const std::string id = "a" + std::to_string(step), earlier = "a" + std::to_string(random_a_() % (step + 1));
  const std::string ns = "user:a";
  const auto fact = memory().Find(ns) ? memory().catalog().GetFact(Space(ns).id, earlier) : Result<FactRow>(FactRow());
  switch (random_a_() % 6) {
    case 0:
      if (fact && !fact->id.empty()) Forget(ns, {earlier});
      return;
    case 1:
      if (fact && !fact->id.empty()) {
        Memory::Update update;
        update.text = Text(random_a_()) + " changed " + id;
        EXPECT_TRUE(memory().UpdateFact(ns, earlier, update));
      }
      return;
    case 2:
      if (fact && !fact->id.empty()) {
        const uint64_t seed = HashBytes(fact->text + std::to_string(step)).low;
        const NewRecord record{fact->seq, MakeRecord(ns, *fact, {}, kKvModel, 1, seed), {}};
        EXPECT_TRUE(memory().vault().Put(Space(ns).id, {&record, 1}));
      }
      return;
    default:
      Remember(ns, {Given(Text(random_a_()), id)});
  }
}

void IsolationTest::StepOfB() {
  const std::string ns = "user:b";
  const std::string id = "a" + std::to_string(random_b_() % 200);  // the ids of A, too
  const bool is_there = memory().Find(ns) && memory().catalog().GetFact(Space(ns).id, id);
  switch (random_b_() % 5) {
    case 0:
      if (is_there) Forget(ns, {id});
      return;
    case 1:
      if (is_there) Encode(ns, id);
      return;
    case 2:
      Recall(ns, Text(random_b_()));
      if (random_b_() % 40 == 0 && is_there) {
        EXPECT_TRUE(memory().ForgetNamespace(ns));
      }
      return;
    default:
      (void)memory().Remember(ns, std::vector<FactInput>{Given(Text(random_b_()), id)});
  }
}

std::string IsolationTest::ResultsOfA() {
  std::string all;
  RecallOptions options;
  options.top_k = 20;
  for (uint64_t query = 0; query < 40; ++query) {
    for (const RecallHit& hit : Recall("user:a", Text(query * 3), options)) {
      const float numbers[] = {hit.score, hit.cosine, hit.keyword};
      all += hit.fact.id + ' ' + HashBytes(numbers, sizeof(numbers)).Hex() + ' ';
      const RecordHandle record = Load("user:a", hit.fact.id);
      all += (record ? HashBytes(PayloadOf(*record)).Hex() : "text") + '\n';
    }
  }
  return all;
}

std::string IsolationTest::Run(bool with_b) {
  Close();
  std::filesystem::remove_all(folder_ / "data");
  Open();
  random_a_.seed(1);
  for (int step = 0; step < 200; ++step) {
    StepOfA(step);
    for (int i = 0; with_b && i < 5; ++i) StepOfB();
  }
  return ResultsOfA();
}

TEST_F(IsolationTest, ANeighbourWithTheSameTextsChangesNothing) {
  const std::string alone = Run(false), beside = Run(true);
  EXPECT_GT(std::count(alone.begin(), alone.end(), '\n'), 400);
  EXPECT_LT(alone.find(' '), alone.size());
  EXPECT_EQ(alone, beside);
  EXPECT_GT(Space("user:b").facts, 10u);
  EXPECT_TRUE(alone.find("text") != std::string::npos);
}

}  // namespace
}  // namespace inferscale
