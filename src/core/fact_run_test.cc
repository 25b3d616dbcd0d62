#include "core/fact_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace inferscale {
namespace {

RunFact MakeFact(int number, uint32_t tokens = 20, uint32_t version = 1) {
  const std::string id = "f" + std::to_string(number);
  return {id, version, HashBytes(id + "/" + std::to_string(version)), tokens};
}

std::vector<RunFact> MakeFacts(int begin, int end, uint32_t tokens = 20) {
  std::vector<RunFact> facts;
  for (int i = begin; i < end; ++i) facts.push_back(MakeFact(i, tokens));
  return facts;
}

std::string Ids(const std::vector<RunFact>& facts) {
  std::string ids;
  for (const RunFact& fact : facts) ids += (ids.empty() ? "" : " ") + fact.id;
  return ids;
}

// What every member has seen, by (id, version): the record it needs.
std::map<std::string, std::string> Windows(const RunBook& book) {
  std::map<std::string, std::string> windows;
  std::vector<const RunFact*> seen;
  for (const FactRun& run : book.runs())
    for (size_t i = 0; i < run.members.size(); ++i) {
      WindowOf(run, i, seen);
      std::string& window = windows[run.members[i].id];
      for (const RunFact* fact : seen) window += fact->id + "/" + std::to_string(fact->version) + " ";
    }
  return windows;
}

// Checks everything the book promises about one state.
void ExpectSound(const RunBook& book, const std::vector<RunFact>& live, size_t run_facts, size_t run_tokens) {
  std::map<std::string, size_t> order;
  for (size_t i = 0; i < live.size(); ++i) order[live[i].id] = i;
  std::set<std::string> members;
  for (const FactRun& run : book.runs()) {
    ASSERT_FALSE(run.members.empty());
    ASSERT_LE(run.members.size(), run_facts);
    ASSERT_LE(run.anchor.size(), run_facts);
    ASSERT_LE(run.anchor.size(), run.anchor_chosen);
    ASSERT_GE(2 * run.anchor.size(), run.anchor_chosen);
    ASSERT_TRUE(run.closed || (!run.side && run.members.size() < run_facts));
    size_t anchor_tokens = 0, member_tokens = 0;
    for (const RunFact& fact : run.anchor) anchor_tokens += fact.tokens;
    for (const RunFact& fact : run.members) member_tokens += fact.tokens;
    ASSERT_LE(anchor_tokens, run_tokens);
    ASSERT_TRUE(member_tokens <= run_tokens || run.members.size() == 1);
    std::vector<RunFact> pass = run.anchor;  // one causal pass: strictly in order, so none sees a later one
    pass.insert(pass.end(), run.members.begin(), run.members.end());
    for (size_t i = 0; i < pass.size(); ++i) {
      ASSERT_TRUE(order.contains(pass[i].id));
      ASSERT_EQ(live[order[pass[i].id]], pass[i]) << "a run refers to a version that is gone";
      ASSERT_TRUE(i == 0 || order[pass[i - 1].id] < order[pass[i].id]);
    }
    for (const RunFact& fact : run.members) ASSERT_TRUE(members.insert(fact.id).second) << fact.id << " in two runs";
  }
  ASSERT_EQ(members.size(), live.size()) << "a fact is in no run";
}

RunBook Reread(const RunBook& book, int run_facts, int run_tokens) {
  auto parsed = RunBook::FromJson(book.ToJson(), run_facts, run_tokens);
  EXPECT_TRUE(parsed.has_value()) << parsed.error().message;
  return std::move(*parsed);
}

TEST(FactRunTest, RunsOfCWithAnchors) {
  RunBook book(3, 1000);
  book.Update(MakeFacts(0, 8));
  ASSERT_EQ(book.runs().size(), 3u);
  EXPECT_EQ(Ids(book.runs()[0].anchor), "");
  EXPECT_EQ(Ids(book.runs()[0].members), "f0 f1 f2");
  EXPECT_EQ(Ids(book.runs()[1].anchor), "f0 f1 f2");
  EXPECT_EQ(Ids(book.runs()[1].members), "f3 f4 f5");
  EXPECT_EQ(Ids(book.runs()[2].members), "f6 f7");
  EXPECT_TRUE(book.runs()[1].closed);
  EXPECT_FALSE(book.runs()[2].closed);
  std::vector<const RunFact*> seen;
  WindowOf(book.runs()[2], 1, seen);
  ASSERT_EQ(seen.size(), 4u);
  EXPECT_EQ(seen[0]->id, "f3");
  EXPECT_EQ(seen[3]->id, "f6");
}

TEST(FactRunTest, TokensCutRunsAndAnchors) {
  RunBook book(20, 100);
  std::vector<RunFact> live = {MakeFact(0, 30),  MakeFact(1, 60), MakeFact(2, 20),
                               MakeFact(3, 500), MakeFact(4, 20), MakeFact(5, 20)};
  book.Update(live);
  ASSERT_EQ(book.runs().size(), 4u);
  EXPECT_EQ(Ids(book.runs()[0].members), "f0 f1");
  EXPECT_EQ(Ids(book.runs()[1].members), "f2");
  EXPECT_EQ(Ids(book.runs()[1].anchor), "f0 f1");
  EXPECT_EQ(Ids(book.runs()[2].members), "f3") << "a fact longer than a run is alone";
  EXPECT_EQ(Ids(book.runs()[2].anchor), "f1 f2") << "30 + 60 + 20 is over 100: the nearest stay";
  EXPECT_EQ(Ids(book.runs()[3].members), "f4 f5");
  EXPECT_EQ(Ids(book.runs()[3].anchor), "") << "nothing before the long fact: an anchor has no gaps";
  ExpectSound(book, live, 20, 100);
}

TEST(FactRunTest, LateFactsFormSideRuns) {
  RunBook book(3, 1000);
  std::vector<RunFact> live = MakeFacts(0, 5);
  book.Update(live);
  const auto before = Windows(book);
  live.insert(live.begin() + 1, {MakeFact(100), MakeFact(101)});
  live.insert(live.begin() + 5, {MakeFact(102), MakeFact(103)});
  live.push_back(MakeFact(5));
  book.Update(live);  // f0 f100 f101 f1 f2 f102 f103 f3 f4 f5
  ASSERT_EQ(book.runs().size(), 4u);
  EXPECT_EQ(Ids(book.runs()[1].members), "f3 f4 f5");
  EXPECT_EQ(Ids(book.runs()[2].members), "f100 f101 f102");
  EXPECT_EQ(Ids(book.runs()[2].anchor), "f0");
  EXPECT_EQ(Ids(book.runs()[3].members), "f103");
  EXPECT_EQ(Ids(book.runs()[3].anchor), "f1 f2 f102");
  EXPECT_TRUE(book.runs()[3].side && book.runs()[3].closed);
  for (const auto& [id, window] : before) EXPECT_EQ(Windows(book)[id], window) << "a late fact makes nothing stale";
  live.push_back(MakeFact(6));
  book.Update(live);
  EXPECT_EQ(Ids(book.runs()[4].members), "f6") << "side runs take nothing, and main runs go on";
  EXPECT_EQ(Ids(book.runs()[4].anchor), "f3 f4 f5");
}

TEST(FactRunTest, AFullRunStaysFull) {
  RunBook book(3, 1000);
  std::vector<RunFact> live = MakeFacts(0, 6);
  book.Update(live);
  live.pop_back();
  book.Update(live);
  live.push_back(MakeFact(6));
  book.Update(live);
  ASSERT_EQ(book.runs().size(), 3u);
  EXPECT_EQ(Ids(book.runs()[1].members), "f3 f4");
  EXPECT_EQ(Ids(book.runs()[2].members), "f6");
  EXPECT_EQ(Ids(book.runs()[2].anchor), "f2 f3 f4");
}

TEST(FactRunTest, AnUpdatedFactLeavesItsRunAndIsLate) {
  RunBook book(4, 1000);
  std::vector<RunFact> live = MakeFacts(0, 6);
  book.Update(live);
  live[1] = MakeFact(1, 20, 2);
  book.Update(live);
  ASSERT_EQ(book.runs().size(), 3u);
  EXPECT_EQ(Ids(book.runs()[0].members), "f0 f2 f3");
  EXPECT_EQ(Ids(book.runs()[1].anchor), "f0 f2 f3");
  EXPECT_EQ(Ids(book.runs()[2].members), "f1");
  EXPECT_TRUE(book.runs()[2].side);
}

TEST(FactRunTest, AnAnchorBelowHalfIsChosenAgain) {
  RunBook book(4, 1000);
  std::vector<RunFact> live = MakeFacts(0, 12);
  book.Update(live);
  live.erase(live.begin() + 4, live.begin() + 6);
  book.Update(live);
  EXPECT_EQ(Ids(book.runs()[2].anchor), "f6 f7") << "half is kept";
  live.erase(live.begin() + 4);
  book.Update(live);
  EXPECT_EQ(Ids(book.runs()[2].anchor), "f1 f2 f3 f7") << "less than half is not";
  ExpectSound(book, live, 4, 1000);
}

TEST(FactRunTest, MovedFactsLeaveTheirRuns) {  // same text, another place: undated facts move with the dated one before
  RunBook book(5, 1000);
  std::vector<RunFact> live = MakeFacts(0, 8);
  book.Update(live);
  std::rotate(live.begin(), live.begin() + 1, live.begin() + 5);  // f0 goes behind f4
  book.Update(live);
  EXPECT_EQ(Ids(book.runs()[0].members), "f1 f2 f3 f4") << "one leaves, not four";
  ExpectSound(book, live, 5, 1000);
  std::reverse(live.begin(), live.end());
  book.Update(live);
  ExpectSound(book, live, 5, 1000);
}

TEST(FactRunTest, AppendingGivesTheSameRunsAsOneUpdate) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int run_facts = 1 + static_cast<int>(random() % 6), run_tokens = 50 + static_cast<int>(random() % 100);
    RunBook bulk(run_facts, run_tokens), appended(run_facts, run_tokens);
    std::vector<RunFact> live;
    const int count = static_cast<int>(random() % 60);
    for (int i = 0; i < count; ++i) {
      live.push_back(MakeFact(i, 1 + random() % 80));
      if (random() % 3 != 0) continue;
      appended.Update(live);
      appended = Reread(appended, run_facts, run_tokens);
    }
    appended.Update(live);
    bulk.Update(live);
    ASSERT_EQ(bulk.runs(), appended.runs()) << "trial " << trial;
  }
}

// The windows a deletion may change, from the book before it; no others may change.
std::set<std::string> MayChange(const RunBook& book, const std::string& gone) {
  std::set<std::string> ids;
  const auto is_gone = [&](const RunFact& fact) { return fact.id == gone; };
  for (const FactRun& run : book.runs()) {
    auto from = std::find_if(run.members.begin(), run.members.end(), is_gone);
    if (std::any_of(run.anchor.begin(), run.anchor.end(), is_gone)) from = run.members.begin();
    for (; from != run.members.end(); ++from) ids.insert(from->id);
  }
  ids.erase(gone);
  return ids;
}

// Returns how many windows changed, and checks that these are exactly those which saw the fact.
size_t DeleteOne(RunBook& book, std::vector<RunFact>& live, size_t place) {
  const std::string gone = live[place].id;
  const std::set<std::string> may_change = MayChange(book, gone);
  const auto before = Windows(book);
  live.erase(live.begin() + static_cast<std::ptrdiff_t>(place));
  book.Update(live);
  const auto after = Windows(book);
  std::set<std::string> changed;
  for (const auto& [id, window] : before)
    if (id != gone && after.at(id) != window) changed.insert(id);
  EXPECT_EQ(changed, may_change);
  return changed.size();
}

TEST(FactRunTest, OneDeletionCostsAtMostTwoRunsLessOne) {
  constexpr size_t kC = 5;
  size_t worst = 0;
  for (size_t place = 0; place < 23; ++place) {
    RunBook book(kC, 1000);
    std::vector<RunFact> live = MakeFacts(0, 23);
    book.Update(live);
    worst = std::max(worst, DeleteOne(book, live, place));
  }
  EXPECT_EQ(worst, 2 * kC - 1);  // reached by the first fact of a run in the middle
}

TEST(FactRunTest, OneDeletionCostsAtMostThreeRunsWhenTokensCut) {
  std::mt19937 random(11);
  constexpr size_t kC = 4;
  size_t worst = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<RunFact> live;
    for (int i = 0; i < 30; ++i) live.push_back(MakeFact(i, 1 + random() % (trial % 2 == 0 ? 60 : 120)));
    RunBook book(kC, 100);
    book.Update(live);
    worst = std::max(worst, DeleteOne(book, live, random() % live.size()));
  }
  EXPECT_LE(worst, 3 * kC - 2);
  EXPECT_GT(worst, kC);
}

struct History {
  explicit History(uint32_t seed) : random(seed) {
    run_facts = 1 + static_cast<int>(random() % 7);
    run_tokens = 60 + static_cast<int>(random() % 200);
  }
  size_t Pick(size_t count) { return random() % count; }
  RunFact Fresh() { return MakeFact(next++, 1 + random() % 70); }

  // One change: add at the end, add anywhere, delete, update in place, move.
  void Change() {
    const size_t kind = Pick(10);
    if (live.empty() || kind < 4)
      live.push_back(Fresh());
    else if (kind < 6)
      live.insert(live.begin() + static_cast<std::ptrdiff_t>(Pick(live.size())), Fresh());
    else if (kind < 8)
      live.erase(live.begin() + static_cast<std::ptrdiff_t>(Pick(live.size())));
    else if (kind < 9)
      ++live[Pick(live.size())].version;
    else
      std::swap(live[Pick(live.size())], live[Pick(live.size())]);
  }

  std::mt19937 random;
  int run_facts, run_tokens, next = 0;
  std::vector<RunFact> live;
};

TEST(FactRunTest, RandomHistoriesStaySound) {
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    History history(seed);
    RunBook book(history.run_facts, history.run_tokens);
    for (int step = 0; step < 12; ++step) {
      for (size_t i = history.Pick(12); i > 0; --i) history.Change();
      book.Update(history.live);
      ASSERT_NO_FATAL_FAILURE(ExpectSound(book, history.live, static_cast<size_t>(history.run_facts),
                                          static_cast<size_t>(history.run_tokens)))
          << "seed " << seed << " step " << step;
      const std::vector<FactRun> once = book.runs();
      book.Update(history.live);
      ASSERT_EQ(book.runs(), once) << "Update is not idempotent, seed " << seed;
    }
    ASSERT_EQ(Reread(book, history.run_facts, history.run_tokens).runs(), book.runs()) << "seed " << seed;
    if (history.live.empty()) continue;
    DeleteOne(book, history.live, history.Pick(history.live.size()));
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(FactRunTest, AddingAnywhereMakesNothingStale) {
  for (uint32_t seed = 0; seed < 300; ++seed) {
    History history(seed);
    RunBook book(history.run_facts, history.run_tokens);
    for (int i = 0; i < 40; ++i) history.Change();
    book.Update(history.live);
    const auto before = Windows(book);
    for (int i = 0; i < 10; ++i)
      history.live.insert(history.live.begin() + static_cast<std::ptrdiff_t>(history.Pick(history.live.size() + 1)),
                          history.Fresh());
    book.Update(history.live);
    const auto after = Windows(book);
    for (const auto& [id, window] : before) ASSERT_EQ(after.at(id), window) << "seed " << seed << " " << id;
  }
}

TEST(FactRunTest, RefusesGarbageJson) {
  RunBook book(3, 100);
  book.Update(MakeFacts(0, 7));
  const std::string good = book.ToJson();
  ASSERT_TRUE(RunBook::FromJson(good, 3, 100));
  EXPECT_EQ(RunBook::FromJson(good, 4, 100).error().code, ErrorCode::kMismatch);
  EXPECT_EQ(RunBook::FromJson(good, 3, 101).error().code, ErrorCode::kMismatch);
  for (const char* text : {"", "null", "[]", "{}", "{", "\xFF", R"({"version":2})"})
    EXPECT_FALSE(RunBook::FromJson(text, 3, 100)) << text;
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(RunBook::FromJson(good.substr(0, n), 3, 100)) << n;
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"[\"f0\",1,", "[\"\",1,"},
                                                        {"[\"f0\",1,", "[1,1,"},
                                                        {"[\"f0\",1,", "[\"f0\",-1,"},
                                                        {"[\"f0\",1,", "[\"f0\",4294967296,"},
                                                        {"[\"f0\",1,", "[\"f0\",1,1,"},
                                                        {",20]", ",2000]"},
                                                        {"\"anchor_chosen\":3", "\"anchor_chosen\":2"},
                                                        {"\"anchor_chosen\":3", "\"anchor_chosen\":4"},
                                                        {"\"closed\":true", "\"closed\":false"},
                                                        {"\"closed\":true", "\"closed\":1"},
                                                        {"\"side\":false", "\"site\":false"},
                                                        {MakeFact(0).digest.Hex(), "0123"}}) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    EXPECT_FALSE(RunBook::FromJson(text.replace(at, from.size(), to), 3, 100)) << from << " -> " << to;
  }
}

// A book that parses but tells nonsense (another file's, or edited by hand) is mended by the next Update.
TEST(FactRunTest, UpdateMendsAnyBook) {
  const std::string fact1 = "[\"f1\",1,\"" + MakeFact(1).digest.Hex() + "\",20]";
  const std::string fact2 = "[\"f2\",1,\"" + MakeFact(2).digest.Hex() + "\",20]";
  auto book = RunBook::FromJson("{\"version\":1,\"run_facts\":3,\"run_tokens\":100,\"runs\":[{\"anchor\":[" + fact2 +
                                    "],\"members\":[" + fact2 + "," + fact1 +
                                    "],\"anchor_chosen\":3,\"closed\":true,\"side\":true}]}",
                                3, 100);
  ASSERT_TRUE(book.has_value()) << book.error().message;
  const std::vector<RunFact> live = MakeFacts(0, 4);
  book->Update(live);
  ExpectSound(*book, live, 3, 100);
}

TEST(FactRunTest, ManyFacts) {
  RunBook book(20, 1024);
  const std::vector<RunFact> live = MakeFacts(0, 200'000);
  book.Update(live);
  book.Update(live);
  EXPECT_EQ(book.runs().size(), 10'000u);
}

}  // namespace
}  // namespace inferscale
