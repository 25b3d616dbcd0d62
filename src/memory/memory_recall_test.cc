// Search of the durable memory, and its index in memory.
#include <gmock/gmock.h>

#include <algorithm>

#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

using MemoryRecallTest = MemoryTest;

TEST_F(MemoryRecallTest, DatesAreSearchedFor) {
  FactInput fact = Given("went to Rome", "rome");
  fact.date = Date{2023, 5, 8};
  Remember(kAda, {fact, Given("went to Oslo", "oslo")});
  EXPECT_EQ(Recall(kAda, "May 2023")[0].fact.id, "rome");
  Memory::Update update;
  update.date = std::optional<Date>(Date{2021, 7, 1});
  ASSERT_TRUE(memory().UpdateFact(kAda, "rome", update));
  EXPECT_EQ(Recall(kAda, "July 2021")[0].fact.id, "rome");
  EXPECT_EQ(Recall(kAda, "May 2023")[0].keyword, 0.0f);
  EXPECT_THAT(Recall(kAda, "went", Filtered(R"({"date": {"lt": "2022-01-01"}})")), SizeIs(1));
}

TEST_F(MemoryRecallTest, LongTextsAreFoundByTheirParts) {
  const std::string text = Words(1000, "word");
  const AddedFact added = Remember(kAda, {Given(text, "long"), Given("short", "short")}).at(0);
  EXPECT_GE(added.parts.size(), 5u);
  const auto hits = Recall(kAda, "word777 word778 word779");
  ASSERT_FALSE(hits.empty());
  EXPECT_EQ(hits[0].fact.kind, FactKind::kPart);
  EXPECT_THAT(hits[0].fact.text, HasSubstr("word777"));
  RecallOptions whole;
  whole.parts_as_parents = true;
  whole.top_k = 2;
  const auto parents = Recall(kAda, Words(1000, "word").substr(0, 5000), whole);
  ASSERT_THAT(parents, SizeIs(2)) << "many parts of one fact leave room for others";
  EXPECT_EQ(parents[0].fact.id, "long");
  EXPECT_EQ(parents[0].fact.text, text);
  EXPECT_EQ(parents[1].fact.id, "short");
  // Shorter, then long again: parts follow.
  Memory::Update update;
  update.text = "brief";
  ASSERT_TRUE(memory().UpdateFact(kAda, "long", update));
  EXPECT_THAT(RecallTexts(kAda, "word777", All()), UnorderedElementsAre("brief", "short"));
  update.text = Words(400, "other");
  ASSERT_TRUE(memory().UpdateFact(kAda, "long", update));
  EXPECT_THAT(Recall(kAda, "other200")[0].fact.text, HasSubstr("other200"));
  EXPECT_EQ(Forget(kAda, {"long"}).deleted, 1u);
  EXPECT_THAT(RecallTexts(kAda, "other200", All()), ElementsAre("short"));
  EXPECT_EQ(memory().Stats()->facts, 1u);
}

TEST_F(MemoryRecallTest, FiltersApplyBeforeTheBestAreChosen) {
  for (int i = 0; i < 50; ++i) {
    FactInput fact = Given("tea " + Words(i + 1, "x"), "f" + std::to_string(i));
    fact.metadata = R"({"n": )" + std::to_string(i) + "}";
    fact.scope.agent_id = i % 2 == 0 ? "even" : "odd";
    Remember(kAda, {fact});
  }
  RecallOptions three = Filtered(R"({"n": {"gte": 40}, "agent_id": "odd"})");
  three.top_k = 3;
  const auto hits = Recall(kAda, "tea x0", three);
  ASSERT_THAT(hits, SizeIs(3));
  for (const RecallHit& hit : hits) {
    EXPECT_GE(std::stoi(hit.fact.id.substr(1)), 40);
    EXPECT_EQ(hit.fact.scope.agent_id, "odd");
  }
  EXPECT_THAT(Recall(kAda, "tea", Filtered(R"({"n": 99})")), IsEmpty());
  // A filter changes nobody's score.
  const auto all = Recall(kAda, "tea x0", All());
  for (const RecallHit& hit : hits) {
    const auto same = [&](const RecallHit& other) { return other.fact.id == hit.fact.id && other.score == hit.score; };
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), same)) << hit.fact.id;
  }
  const auto wrong = memory().Recall("user:nobody", "tea", Filtered(R"({"n": {"about": 3}})"));
  EXPECT_EQ(CodeOf(wrong), ErrorCode::kInvalidArgument);
  EXPECT_THAT(MessageOf(wrong), HasSubstr("$.n.about"));
}

TEST_F(MemoryRecallTest, TheThresholdIsOfTheScore) {
  Remember(kAda, {Given("green tea"), Given("black tea"), Given("a car")});
  const auto all = Recall(kAda, "green tea", All());
  ASSERT_THAT(all, SizeIs(3));
  RecallOptions options = All();
  options.threshold = all[1].score;
  EXPECT_THAT(Recall(kAda, "green tea", options), SizeIs(2));
  options.threshold = 1.1f;
  EXPECT_THAT(Recall(kAda, "green tea", options), IsEmpty());
}

// What is in memory follows changes as a load from the disk would have it.
TEST_F(MemoryRecallTest, TheIndexInMemoryIsThatOfAReload) {
  const auto compare = [&] {
    const RecallOptions hidden = [] {
      RecallOptions options = All();
      options.superseded = true;
      return options;
    }();
    std::vector<std::string> before;
    for (const RecallOptions& options : {All(), hidden, Filtered(R"({"text": {"contains": "a"}})")})
      for (const char* query : {"apple banana", "cherry", "x1 x500 x900"})
        before.push_back(Found(memory(), kAda, query, options));
    Open();
    std::vector<std::string> after;
    for (const RecallOptions& options : {All(), hidden, Filtered(R"({"text": {"contains": "a"}})")})
      for (const char* query : {"apple banana", "cherry", "x1 x500 x900"})
        after.push_back(Found(memory(), kAda, query, options));
    EXPECT_EQ(before, after);
  };
  for (int i = 0; i < 40; ++i)
    RememberText(kAda, (i % 2 == 0 ? "apple " : "banana ") + Words(i % 7, "y") + " " + std::to_string(i),
                 "f" + std::to_string(i));
  compare();
  Memory::Update update;
  for (int i = 0; i < 40; i += 3) {
    update.text = i % 2 == 0 ? "cherry " + std::to_string(i) : Words(1000 + i, "x");
    ASSERT_TRUE(memory().UpdateFact(kAda, "f" + std::to_string(i), update));
  }
  compare();
  for (int i = 0; i < 40; i += 4) {
    ASSERT_TRUE(memory().Supersede(kAda, "f" + std::to_string(i), "f1"));
  }
  std::vector<std::string> most;
  for (int i = 2; i < 32; ++i) most.push_back("f" + std::to_string(i));
  compare();
  Forget(kAda, most);
  compare();
  FactInput expiring = Given("apple that rots", "rot");
  expiring.expires_us = NowMicros() + 1'000'000'000;
  Remember(kAda, {expiring});
  compare();
  later_ = 2'000'000'000;
  compare();
  ASSERT_TRUE(memory().ForgetExpired());
  compare();
}

TEST_F(MemoryRecallTest, IndexesThatDoNotFitAreLoadedAgain) {
  MemoryOptions options = Options();
  options.index_bytes = 1;
  Open(options);
  for (int i = 0; i < 5; ++i)
    for (const char* ns : {kAda, kBob}) {
      RememberText(ns, std::string("fact of ") + ns + " number " + std::to_string(i));
      EXPECT_THAT(Recall(ns, "fact number", All()), SizeIs(static_cast<size_t>(i) + 1));
    }
}

TEST_F(MemoryRecallTest, QuestionsHaveLimits) {
  using namespace std::string_literals;
  RememberText(kAda, "x", "f");
  EXPECT_EQ(CodeOf(memory().Recall(kAda, "", {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory().Recall(kAda, "a\0"s, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory().Recall(kAda, "\xFF", {})), ErrorCode::kInvalidUtf8);
  EXPECT_EQ(CodeOf(memory().Recall(kAda, std::string(limits::kQuestionBytes + 1, 'x'), {})), ErrorCode::kTooLarge);
  RecallOptions many;
  many.top_k = limits::kTopKMax + 1;
  EXPECT_EQ(CodeOf(memory().Recall(kAda, "x", many)), ErrorCode::kTooLarge);
  const std::vector<float> short_vector(3, 0.5f);
  EXPECT_EQ(CodeOf(memory().Recall(kAda, "x", short_vector, {})), ErrorCode::kInvalidArgument);
}

TEST_F(MemoryRecallTest, AnotherEmbedderIsRefusedUntilEverythingIsEmbeddedAnew) {
  RememberText(kAda, "green tea", "f");
  Close();
  BagEmbedder other(48, 7);
  EXPECT_EQ(CodeOf(Memory::Open(Options(), &other)), ErrorCode::kMismatch);
  MemoryOptions options = Options();
  options.any_embedder = true;
  auto opened = Memory::Open(options, &other);
  ASSERT_TRUE(opened) << opened.error().message;
  size_t done = 0, all = 0;
  ASSERT_TRUE((*opened)->Reembed([&](size_t now, size_t total) { done = now, all = total; }));
  EXPECT_EQ(done, 1u);
  EXPECT_EQ(all, 1u);
  EXPECT_EQ((*opened)->Recall(kAda, "green tea", {})->size(), 1u);
  opened->reset();
  opened = Memory::Open(Options(), &other);
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ((*opened)->Recall(kAda, "green tea", {})->size(), 1u);
  opened->reset();
  opened = Memory::Open(Options(), nullptr);  // for lists and the like
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_EQ(CodeOf((*opened)->Recall(kAda, "tea", {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf((*opened)->Remember(kAda, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ((*opened)->Forget(kAda, std::vector<std::string>{"f"})->deleted, 1u);
}

}  // namespace
}  // namespace inferscale
