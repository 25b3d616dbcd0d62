// The operations on facts, one by one. sqlite_model_test.cc has them in random order.
#include "catalog/sqlite_catalog.h"

#include <gmock/gmock.h>

#include "base/limits.h"
#include "catalog/catalog_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class SqliteCatalogTest : public CatalogTest {
 protected:
  std::vector<std::string> Ids(const ListOptions& options = {}) {
    std::vector<std::string> ids;
    const auto rows = catalog().ListFacts(ns_, options).value();
    for (const FactRow& row : rows) ids.push_back(row.id);
    return ids;
  }
};

TEST_F(SqliteCatalogTest, KeepsEveryFieldAcrossOpening) {
  NewFact fact = FactOf("f1", std::string("Ada likes\0 tea \xF0\x9F\x8D\xB5", 19));
  fact.content.date = Date{2023, 5, 8};
  fact.expires_us = kTestStart + kTestDay;
  fact.metadata = R"({"k":1})";
  fact.scope = {"ada", "agent", "run", "app"};
  fact.turn = "t1";
  fact.supersede_key = "drink";
  const AddResult added = Add(ns_, {fact});
  Open();
  const FactRow row = catalog().GetFact(ns_, "f1").value();
  EXPECT_EQ(row.seq, added.facts[0].seq);
  EXPECT_EQ(row.text, fact.content.text);
  EXPECT_EQ(row.date, fact.content.date);
  EXPECT_EQ(row.order_day, (Date{2023, 5, 8}));
  EXPECT_EQ(row.created_us, kTestStart);
  EXPECT_EQ(row.expires_us, fact.expires_us);
  EXPECT_EQ(row.metadata, fact.metadata);
  EXPECT_EQ(row.scope, fact.scope);
  EXPECT_EQ(row.turn, "t1");
  EXPECT_EQ(row.supersede_key, "drink");
  EXPECT_EQ(row.words, fact.content.search.words);
  EXPECT_EQ(CodeOf(catalog().GetFact(ns_, "f2")), ErrorCode::kNotFound);
  EXPECT_THAT(catalog().FindFacts("f1").value(), SizeIs(1));
}

TEST_F(SqliteCatalogTest, AnUndatedFactIsOrderedByItsArrivalOrAsTold) {
  NewFact told = FactOf("told", "b");
  told.order_day = Date{2001, 2, 3};
  Add(ns_, {FactOf("today", "a"), told});
  EXPECT_EQ(catalog().GetFact(ns_, "today")->order_day, (Date{2023, 11, 14}));
  EXPECT_EQ(catalog().GetFact(ns_, "told")->order_day, (Date{2001, 2, 3}));
  std::vector<std::string> order;
  const auto scan = catalog().ScanFacts(ns_, {.by_order = true}, [&](const ScanRow& row) {
    order.push_back(row.fact.id);
    return true;
  });
  ASSERT_TRUE(scan);
  EXPECT_THAT(order, ElementsAre("told", "today"));
}

TEST_F(SqliteCatalogTest, EqualTextAndDateIsOneFact) {
  const AddResult first =
      Add(ns_, {FactOf("", "run 1: 84.2 ms"), FactOf("", "run 1: 84.2 ms"), FactOf("", "run 2: 84.3 ms")});
  EXPECT_EQ(first.facts[0].outcome, AddOutcome::kAdded);
  EXPECT_EQ(first.facts[0].id.size(), 36u) << "a UUID";
  EXPECT_EQ(first.facts[1].outcome, AddOutcome::kDuplicate);
  EXPECT_EQ(first.facts[1].id, first.facts[0].id);
  EXPECT_EQ(first.facts[2].outcome, AddOutcome::kAdded);
  NewFact dated = FactOf("", "run 1: 84.2 ms");
  dated.content.date = Date{2023, 1, 1};
  EXPECT_EQ(Add(ns_, {dated}).facts[0].outcome, AddOutcome::kAdded);
  EXPECT_EQ(Add(Name("user:eve"), {FactOf("", "run 1: 84.2 ms")}).facts[0].outcome, AddOutcome::kAdded);
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, 3u);
}

TEST_F(SqliteCatalogTest, AnIdIsGivenOnce) {
  AddText(ns_, "f", "one");
  const AddResult again = Add(ns_, {FactOf("f", "one"), FactOf("f", "two")});
  EXPECT_EQ(again.facts[0].outcome, AddOutcome::kDuplicate);
  EXPECT_EQ(again.facts[1].outcome, AddOutcome::kIdTaken);
  EXPECT_EQ(catalog().GetFact(ns_, "f")->text, "one");
}

TEST_F(SqliteCatalogTest, AnIdempotencyKeyStandsForOneRequest) {
  const std::vector<NewFact> facts = {FactOf("", "a"), LongFact("", {"b", "c"})};
  const AddResult first = Add(ns_, facts, {"key", 0});
  EXPECT_FALSE(first.replayed);
  for (int i = 0; i < 40; ++i) {
    const AddResult again = Add(ns_, facts, {"key", 0});
    EXPECT_TRUE(again.replayed);
    EXPECT_EQ(again.facts, first.facts);
  }
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, 2u);
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{FactOf("", "x")}, {"key", 0})), ErrorCode::kConflict);
  EXPECT_FALSE(Add(Name("other"), facts, {"key", 0}).replayed);
  now_ += limits::kIdempotencyMicros + 1;
  EXPECT_FALSE(Add(ns_, {FactOf("", "x")}, {"key", 0}).replayed);
}

TEST_F(SqliteCatalogTest, AReplaySaysWhichFactsAreForgotten) {
  AddText(ns_, "old", "c");
  const std::vector<NewFact> facts = {FactOf("a", "a"), FactOf("b", "b"), FactOf("", "c")};
  Add(ns_, facts, {"key", 0});
  Delete(ns_, {"a", "old"});
  const AddResult again = Add(ns_, facts, {"key", 0});
  EXPECT_TRUE(again.replayed);
  EXPECT_EQ(again.facts[0].outcome, AddOutcome::kForgotten);
  EXPECT_EQ(again.facts[1].outcome, AddOutcome::kAdded);
  EXPECT_EQ(again.facts[2].outcome, AddOutcome::kForgotten) << "what it was a duplicate of";
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, 1u) << "nothing is stored again";
}

TEST_F(SqliteCatalogTest, AnUpdateMakesNoTwoFactsOfOneTextAndDate) {
  const auto update = [&](const char* id, const char* text, std::optional<Date> date = {}) {
    return catalog().UpdateFact(ns_, id, {.content = ContentOf(text, date), .metadata = "{}"});
  };
  AddText(ns_, "a", "one");
  AddText(ns_, "b", "two");
  const auto refused = update("b", "one");
  EXPECT_EQ(CodeOf(refused), ErrorCode::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("fact \"a\""), std::string::npos);
  EXPECT_EQ(catalog().GetFact(ns_, "b")->version, 1u);
  EXPECT_EQ(catalog().GetFact(ns_, "b")->metadata, "") << "nor anything else";
  EXPECT_TRUE(update("a", "one")) << "its own text";
  EXPECT_TRUE(update("b", "one", Date{2023, 5, 8})) << "another date is another fact";
  EXPECT_EQ(CodeOf(update("b", "one")), ErrorCode::kInvalidArgument) << "the date alone";
  Add(Name("other"), {FactOf("c", "three")});
  EXPECT_TRUE(update("b", "three")) << "of another namespace";
  Delete(ns_, {"a"});
  EXPECT_TRUE(update("b", "one"));
}

TEST_F(SqliteCatalogTest, AFailedBatchChangesNothing) {
  NewFact wrong = FactOf("w", "wrong");
  wrong.content.search.vector.push_back(1);
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{FactOf("ok", "good"), wrong}, {})), ErrorCode::kMismatch);
  NewFact unknown = FactOf("u", "newer");
  unknown.supersedes = {"nobody"};
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{FactOf("ok", "good"), unknown}, {})), ErrorCode::kNotFound);
  NewFact twice = FactOf("t", "twice");
  twice.content.search.terms.push_back(twice.content.search.terms[0]);
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{FactOf("ok", "good"), twice}, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{FactOf("", "")}, {})), ErrorCode::kInvalidArgument);
  const std::string large(limits::kFactBytes + 1, 'x');
  NewFact too_large = FactOf("", "x");
  too_large.content.text = large;
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_, std::vector{too_large}, {})), ErrorCode::kTooLarge);
  EXPECT_EQ(CodeOf(catalog().AddFacts(ns_ + 7, std::vector{FactOf("", "x")}, {})), ErrorCode::kNotFound);
  EXPECT_THAT(Ids(), IsEmpty());
  EXPECT_EQ(catalog().GetNamespace(ns_)->generation, 0u);
  EXPECT_THAT(catalog().Fsck(false).value(), IsEmpty());
}

TEST_F(SqliteCatalogTest, AnUpdateIsANewVersion) {
  const FactSeq seq = AddText(ns_, "f", "lives in Beijing");
  FactUpdate update{.content = ContentOf("lives in Shanghai"), .expected_version = 1};
  const UpdateResult updated = catalog().UpdateFact(ns_, "f", update).value();
  EXPECT_EQ(updated.seq, seq);
  EXPECT_EQ(updated.version, 2u);
  EXPECT_TRUE(updated.content_changed);
  EXPECT_EQ(CodeOf(catalog().UpdateFact(ns_, "f", update)), ErrorCode::kConflict);
  update.expected_version.reset();
  EXPECT_FALSE(catalog().UpdateFact(ns_, "f", update)->content_changed) << "the same text again";
  EXPECT_EQ(catalog().UpdateFact(ns_, "f", {.metadata = "{}"})->version, 2u);
  const auto postings = catalog().Postings(ns_, std::vector<std::string>{"Beijing", "Shanghai", "lives"}, 10).value();
  EXPECT_EQ(postings[0].facts, 0u);
  EXPECT_THAT(postings[1].postings, ElementsAre(Posting{seq, 1}));
  EXPECT_EQ(postings[2].facts, 1u);
}

TEST_F(SqliteCatalogTest, HistoryKeepsOldWordsUntilTheFactIsDeleted) {
  AddText(ns_, "f", "one");
  (void)catalog().UpdateFact(ns_, "f", {.content = ContentOf("two")});
  (void)catalog().UpdateFact(ns_, "f", {.content = ContentOf("three")});
  auto history = catalog().History(ns_, "f").value();
  ASSERT_THAT(history, SizeIs(3));
  EXPECT_EQ(history[0].new_text, "one");
  EXPECT_EQ(history[1].old_text, "one");
  EXPECT_EQ(history[1].new_text, "two");
  EXPECT_EQ(history[2].old_text, "two");
  EXPECT_EQ(history[2].new_text, "three");
  (void)catalog().DeleteFacts(ns_, std::vector<std::string>{"f"});
  AddText(ns_, "f", "four");
  history = catalog().History(ns_, "f").value();
  ASSERT_THAT(history, SizeIs(5));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(history[i].old_text, std::nullopt) << i;
    EXPECT_EQ(history[i].new_text, std::nullopt) << i;
  }
  EXPECT_EQ(history[3].event, HistoryEvent::kDelete);
  EXPECT_EQ(history[4].new_text, "four");
  EXPECT_THAT(catalog().History(ns_, "nobody").value(), IsEmpty());
}

TEST_F(SqliteCatalogTest, HistoryOfOneFactIsLimited) {
  AddText(ns_, "f", "text 0");
  const int updates = static_cast<int>(limits::kHistoryPerFact) + 20;
  for (int i = 1; i <= updates; ++i)
    ASSERT_TRUE(catalog().UpdateFact(ns_, "f", {.content = ContentOf("text " + std::to_string(i))}));
  const auto history = catalog().History(ns_, "f").value();
  EXPECT_THAT(history, SizeIs(limits::kHistoryPerFact + 1)) << "the addition stays";
  EXPECT_EQ(history[0].new_text, std::nullopt) << "what it made was replaced by an update that is gone";
  EXPECT_EQ(history.back().new_text, "text " + std::to_string(updates));
}

TEST_F(SqliteCatalogTest, ANewerFactHidesTheOlderOne) {
  NewFact beijing = FactOf("old", "lives in Beijing"), shanghai = FactOf("new", "lives in Shanghai");
  beijing.supersede_key = shanghai.supersede_key = "home";
  const FactSeq old_seq = Add(ns_, {beijing}).facts[0].seq;
  EXPECT_THAT(Add(ns_, {shanghai}).change.superseded, ElementsAre(old_seq));
  EXPECT_THAT(Ids(), ElementsAre("new"));
  EXPECT_THAT(Ids({.superseded = true}), ElementsAre("old", "new"));
  EXPECT_EQ(catalog().GetFact(ns_, "old")->superseded_by, "new");
  EXPECT_EQ(catalog().History(ns_, "old")->back().event, HistoryEvent::kSupersede);
  EXPECT_EQ(Add(ns_, {FactOf("back", "lives in Beijing")}).facts[0].outcome, AddOutcome::kAdded) << "moved back";
  EXPECT_TRUE(catalog().Supersede(ns_, "new", "back"));
  EXPECT_THAT(Ids(), ElementsAre("back"));
  EXPECT_EQ(CodeOf(catalog().Supersede(ns_, "back", "back")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(catalog().Supersede(ns_, "back", "nobody")), ErrorCode::kNotFound);
}

TEST_F(SqliteCatalogTest, ALongFactIsItsParts) {
  const AddResult added = Add(ns_, {LongFact("long", {"first part", "second part"})});
  ASSERT_THAT(added.facts[0].parts, SizeIs(2));
  EXPECT_THAT(Queued(ns_), ElementsAre(added.facts[0].parts[0], added.facts[0].parts[1]));
  EXPECT_EQ(catalog().GetNamespace(ns_)->searchable, 2u);
  EXPECT_THAT(Ids(), ElementsAre("long"));
  EXPECT_EQ(catalog().GetParts(ns_, added.facts[0].seq)->at(1).id, "long#2");
  EXPECT_EQ(CodeOf(catalog().DeleteFacts(ns_, std::vector<std::string>{"long#1"})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(catalog().UpdateFact(ns_, "long#1", {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Add(ns_, {FactOf("long#3", "taken")}).facts[0].outcome, AddOutcome::kAdded);
  const FactUpdate longer{.content = LongFact("", {"a", "b", "c"}).content};
  EXPECT_EQ(CodeOf(catalog().UpdateFact(ns_, "long", longer)), ErrorCode::kConflict);
  const UpdateResult shorter = catalog().UpdateFact(ns_, "long", {.content = ContentOf("short")}).value();
  EXPECT_THAT(shorter.change.removed, UnorderedElementsAre(added.facts[0].parts[0], added.facts[0].parts[1]));
  EXPECT_EQ(catalog().GetFact(ns_, "long")->kind, FactKind::kWhole);
  const UpdateResult split = catalog().UpdateFact(ns_, "long", {.content = LongFact("", {"a", "b"}).content}).value();
  EXPECT_EQ(catalog().GetParts(ns_, split.seq)->at(0).version, 3u) << "ids come back, versions do not";
  const DeleteResult deleted = catalog().DeleteFacts(ns_, std::vector<std::string>{"long", "nobody", "long"}).value();
  EXPECT_EQ(deleted.deleted, 1u);
  EXPECT_THAT(deleted.change.removed, SizeIs(3));
  EXPECT_THAT(deleted.missing, ElementsAre("nobody"));
  EXPECT_THAT(catalog().Fsck(false).value(), IsEmpty());
}

TEST_F(SqliteCatalogTest, ExpiredFactsAreHiddenAndCollected) {
  NewFact fact = FactOf("f", "in town this week");
  fact.expires_us = kTestStart + 10;
  Add(ns_, {fact, FactOf("g", "stays")});
  now_ = kTestStart + 9;
  EXPECT_THAT(Ids(), ElementsAre("f", "g"));
  EXPECT_EQ(catalog().ExpireDue(100)->deleted, 0u);
  now_ = kTestStart + 10;
  EXPECT_THAT(Ids(), ElementsAre("g"));
  EXPECT_THAT(Ids({.expired = true}), ElementsAre("f", "g"));
  EXPECT_EQ(catalog().ExpireDue(100)->deleted, 1u);
  EXPECT_THAT(Ids({.expired = true}), ElementsAre("g"));
  EXPECT_EQ(catalog().History(ns_, "f")->back().event, HistoryEvent::kExpire);
}

TEST_F(SqliteCatalogTest, ListsPageByPage) {
  for (int i = 0; i < 25; ++i) AddText(ns_, "f" + std::to_string(i), "text " + std::to_string(i));
  for (const bool newest_first : {false, true}) {
    ListOptions options{.limit = 10, .newest_first = newest_first};
    std::vector<std::string> all;
    for (;;) {
      const auto page = catalog().ListFacts(ns_, options).value();
      for (const FactRow& row : page) all.push_back(row.id);
      if (page.size() < options.limit) break;
      options.after = page.back().seq;
    }
    ASSERT_THAT(all, SizeIs(25));
    EXPECT_EQ(all.front(), newest_first ? "f24" : "f0");
    EXPECT_EQ(all.back(), newest_first ? "f0" : "f24");
  }
}

TEST_F(SqliteCatalogTest, TenThousandAndOneFactsGoInOneCall) {
  for (int batch = 0; batch < 2; ++batch) {
    std::vector<NewFact> facts;
    for (int i = 0; i < (batch == 0 ? 10'000 : 1); ++i)
      facts.push_back(FactOf("", "fact number " + std::to_string(batch * 10'000 + i)));
    Add(ns_, facts);
  }
  AddText(Name("other"), "x", "stays");
  const DeleteResult deleted = catalog().DeleteNamespace(ns_).value();
  EXPECT_EQ(deleted.deleted, 10'001u);
  EXPECT_EQ(CodeOf(catalog().FindNamespace("user:ada")), ErrorCode::kNotFound);
  EXPECT_NE(Name("user:ada"), ns_) << "an id is not used again";
  EXPECT_THAT(catalog().ListNamespaces(0, 10).value(), SizeIs(2));
  EXPECT_THAT(catalog().Fsck(false).value(), IsEmpty());
}

TEST_F(SqliteCatalogTest, DeletingAllFactsKeepsTheEvents) {
  AddText(ns_, "f", "one");
  (void)catalog().UpdateFact(ns_, "f", {.content = ContentOf("two")});
  Add(ns_, {LongFact("long", {"a", "b"})}, {"key", 0});
  EXPECT_EQ(catalog().DeleteAllFacts(ns_)->deleted, 2u);
  const auto history = catalog().History(ns_, "f").value();
  ASSERT_THAT(history, SizeIs(3));
  EXPECT_EQ(history[1].old_text, std::nullopt);
  EXPECT_EQ(history[2].event, HistoryEvent::kDelete);
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, 0u);
  EXPECT_FALSE(Add(ns_, {LongFact("long", {"a", "b"})}, {"key", 0}).replayed) << "they are gone: it is a new request";
}

}  // namespace
}  // namespace inferscale
