// The durable memory as an application sees it.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

TEST_F(MemoryTest, WhatIsRememberedIsFoundAtOnceAndAfterARestart) {
  RememberText(kAda, "the cat sleeps on the sofa", "cat");
  RememberText(kAda, "the train leaves at nine", "train");
  for (int round = 0; round < 2; ++round) {
    const auto hits = Recall(kAda, "cat sofa");
    ASSERT_THAT(hits, SizeIs(2));
    EXPECT_EQ(hits[0].fact.id, "cat");
    EXPECT_GT(hits[0].score, hits[1].score);
    EXPECT_GT(hits[0].keyword, 0.0f);
    EXPECT_EQ(hits[1].keyword, 0.0f);
    EXPECT_NEAR(Recall(kAda, "the train leaves at nine")[0].cosine, 1.0f, 1e-5f);
    Open();
  }
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(MemoryTest, NamespacesAreApart) {
  RememberText(kAda, "likes tea", "a");
  RememberText(kBob, "likes tea too", "b");
  EXPECT_THAT(RecallTexts(kAda, "tea"), ElementsAre("likes tea"));
  EXPECT_THAT(RecallTexts(kBob, "tea"), ElementsAre("likes tea too"));
  EXPECT_THAT(RecallTexts("user:nobody", "tea"), IsEmpty());
  EXPECT_EQ(CodeOf(memory().Find("user:nobody")), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(memory().Forget("user:nobody", {})), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(memory().UpdateFact(kAda, "b", {})), ErrorCode::kNotFound);
  EXPECT_THAT(Forget(kAda, {"b"}).missing, ElementsAre("b"));
  EXPECT_THAT(RecallTexts(kBob, "tea"), SizeIs(1));
}

TEST_F(MemoryTest, UpdatesAreFoundByTheirNewWordsOnly) {
  RememberText(kAda, "her dog is called Rex", "dog");
  EXPECT_THAT(Recall(kAda, "dog"), SizeIs(1));  // the vectors are in memory when it is changed
  Memory::Update update;
  update.text = "her bird is called Tweety";
  const auto updated = memory().UpdateFact(kAda, "dog", update);
  ASSERT_TRUE(updated) << updated.error().message;
  EXPECT_EQ(updated->version, 2u);
  EXPECT_THAT(RecallTexts(kAda, "dog Rex"), ElementsAre("her bird is called Tweety"));
  EXPECT_EQ(Recall(kAda, "Rex")[0].keyword, 0.0f);
  EXPECT_GT(Recall(kAda, "Tweety")[0].keyword, 0.0f);
  EXPECT_NEAR(Recall(kAda, "her bird is called Tweety")[0].cosine, 1.0, 1e-3) << "its vector is the new text's";
  update.text = "something else";
  update.expected_version = 1;
  EXPECT_EQ(CodeOf(memory().UpdateFact(kAda, "dog", update)), ErrorCode::kConflict);
  // Metadata is no content: the version stays, filters see it.
  Memory::Update metadata;
  metadata.metadata = R"({"topic": "pets"})";
  EXPECT_FALSE(memory().UpdateFact(kAda, "dog", metadata)->content_changed);
  EXPECT_THAT(Recall(kAda, "bird", Filtered(R"({"topic": "pets"})")), SizeIs(1));
  metadata.metadata = "[]";
  EXPECT_EQ(CodeOf(memory().UpdateFact(kAda, "dog", metadata)), ErrorCode::kInvalidJson);
}

TEST_F(MemoryTest, WhatIsForgottenIsNotFound) {
  for (int i = 0; i < 10; ++i) RememberText(kAda, "number " + std::to_string(i) + " is here", "f" + std::to_string(i));
  const DeleteResult one = Forget(kAda, {"f3", "f7", "nothing"});
  EXPECT_EQ(one.deleted, 2u);
  EXPECT_THAT(one.missing, ElementsAre("nothing"));
  EXPECT_THAT(Recall(kAda, "number", All()), SizeIs(8));
  const auto where = memory().ForgetWhere(kAda, R"({"text": {"contains": "number 5"}})");
  ASSERT_TRUE(where) << where.error().message;
  EXPECT_EQ(where->deleted, 1u);
  EXPECT_EQ(CodeOf(memory().ForgetWhere(kAda, R"({"text": {"like": 5}})")), ErrorCode::kInvalidArgument);
  EXPECT_THAT(Recall(kAda, "number", All()), SizeIs(7));
  EXPECT_EQ(memory().ForgetNamespace(kAda)->deleted, 7u);
  EXPECT_THAT(Recall(kAda, "number", All()), IsEmpty());
  EXPECT_EQ(CodeOf(memory().Find(kAda)), ErrorCode::kNotFound);
  RememberText(kAda, "number again", "f1");
  EXPECT_THAT(RecallTexts(kAda, "number", All()), ElementsAre("number again"));
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(MemoryTest, WhatHasExpiredIsNotFoundAndIsCollected) {
  FactInput soon = Given("a voucher of the shop", "voucher");
  soon.expires_us = NowMicros() + 3600ll * 1'000'000;
  Remember(kAda, {soon, Given("the shop is in town", "shop")});
  EXPECT_THAT(Recall(kAda, "shop"), SizeIs(2));
  EXPECT_EQ(memory().ForgetExpired()->deleted, 0u);
  later_ = 3601ll * 1'000'000;
  RecallOptions one;
  one.top_k = 1;  // the expired fact takes nobody's place
  EXPECT_THAT(RecallTexts(kAda, "a voucher of the shop", one), ElementsAre("the shop is in town"));
  EXPECT_EQ(memory().ForgetExpired()->deleted, 1u);
  EXPECT_EQ(CodeOf(memory().catalog().GetFact(Space(kAda).id, "voucher")), ErrorCode::kNotFound);
  FactInput past = Given("too late");
  past.expires_us = NowMicros() - 1;
  EXPECT_EQ(CodeOf(memory().Remember(kAda, {&past, 1})), ErrorCode::kInvalidArgument);
}

TEST_F(MemoryTest, AnExpiryCanBeSetAndTakenBack) {
  RememberText(kAda, "short lived", "f");
  EXPECT_THAT(Recall(kAda, "short"), SizeIs(1));
  Memory::Update update;
  update.expires_us = std::optional<Micros>(NowMicros() + 1'000'000'000);
  ASSERT_TRUE(memory().UpdateFact(kAda, "f", update));
  later_ = 2'000'000'000;
  EXPECT_THAT(Recall(kAda, "short"), IsEmpty());
  update.expires_us = std::optional<Micros>();
  ASSERT_TRUE(memory().UpdateFact(kAda, "f", update));
  EXPECT_THAT(Recall(kAda, "short"), SizeIs(1));
}

TEST_F(MemoryTest, SupersededFactsAreHiddenAndShownOnRequest) {
  RememberText(kAda, "lives in Berlin", "berlin");
  RememberText(kAda, "lives in Paris", "paris");
  ASSERT_TRUE(memory().Supersede(kAda, "berlin", "paris"));
  RecallOptions one;
  one.top_k = 1;
  EXPECT_THAT(RecallTexts(kAda, "lives in Berlin", one), ElementsAre("lives in Paris"));
  one.superseded = true;
  EXPECT_THAT(RecallTexts(kAda, "lives in Berlin", one), ElementsAre("lives in Berlin"));
  EXPECT_EQ(Recall(kAda, "lives in Berlin", one)[0].fact.superseded_by, "paris");
  EXPECT_EQ(CodeOf(memory().Supersede(kAda, "berlin", "berlin")), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory().Supersede(kAda, "rome", "paris")), ErrorCode::kNotFound);

  FactInput first = Given("weighs 80 kg", "w1"), second = Given("weighs 78 kg", "w2");
  first.supersede_key = second.supersede_key = "weight";
  Remember(kAda, {first});
  Remember(kAda, {second});
  EXPECT_THAT(RecallTexts(kAda, "weighs", Filtered(R"({"text": {"contains": "kg"}})")), ElementsAre("weighs 78 kg"));
  FactInput third = Given("weighs 75 kg", "w3");
  third.supersedes = {"w2"};
  Remember(kAda, {third});
  EXPECT_THAT(RecallTexts(kAda, "weighs", Filtered(R"({"text": {"contains": "kg"}})")), ElementsAre("weighs 75 kg"));
  const auto history = memory().catalog().History(Space(kAda).id, "w2").value();
  EXPECT_EQ(history.back().event, HistoryEvent::kSupersede);
}

TEST_F(MemoryTest, ASupersededFactStaysHiddenWhenItIsChanged) {
  Remember(kAda, {Given("old address", "old"), Given("new address", "new")});
  ASSERT_THAT(Recall(kAda, "address"), SizeIs(2));  // in memory from here on
  ASSERT_TRUE(memory().Supersede(kAda, "old", "new"));
  for (const std::string& text : {std::string("old address again"), Words(700, "street")}) {
    Memory::Update update;
    update.text = text;
    ASSERT_TRUE(memory().UpdateFact(kAda, "old", update));
    RecallOptions one;
    one.top_k = 1;
    EXPECT_THAT(RecallTexts(kAda, text.substr(0, 30), one), ElementsAre("new address"));
  }
}

TEST_F(MemoryTest, SourceTurnsGoWithTheirLastFact) {
  const std::vector<NewTurn> turns = {{"t1", 1, "Ada", "I like tea and cake", {}}};
  ASSERT_EQ(memory().PutTurns(kAda, turns)->added, 1u);
  FactInput tea = Given("likes tea", "tea"), cake = Given("likes cake", "cake");
  tea.turn = cake.turn = "t1";
  Remember(kAda, {tea, cake});
  Forget(kAda, {"tea"});
  EXPECT_TRUE(memory().catalog().FindTurn(Space(kAda).id, "t1"));
  Forget(kAda, {"cake"});
  EXPECT_EQ(CodeOf(memory().catalog().FindTurn(Space(kAda).id, "t1")), ErrorCode::kNotFound);
  const std::vector<NewTurn> wrong = {{"t2", 2, "Ada", "fine", {}}, {"t3", 3, "Ada", "\xFF", {}}};
  EXPECT_EQ(CodeOf(memory().PutTurns(kAda, wrong)), ErrorCode::kInvalidUtf8);
  EXPECT_EQ(Space(kAda).turns, 0u) << "all or none";
}

TEST_F(MemoryTest, DuplicatesReturnTheIdThatIsThereAndNearDuplicatesStay) {
  const std::string id = RememberText(kAda, "run 1: 84.2 ms");
  const auto again = Remember(kAda, {Given("run 1: 84.2 ms"), Given("run 2: 84.3 ms"), Given("run 2: 84.3 ms")});
  EXPECT_EQ(again[0].outcome, AddOutcome::kDuplicate);
  EXPECT_EQ(again[0].id, id);
  EXPECT_EQ(again[1].outcome, AddOutcome::kAdded);
  EXPECT_EQ(again[2].outcome, AddOutcome::kDuplicate);
  EXPECT_EQ(again[2].id, again[1].id);
  FactInput dated = Given("run 1: 84.2 ms");
  dated.date = Date{2024, 1, 1};
  EXPECT_EQ(Remember(kAda, {dated})[0].outcome, AddOutcome::kAdded);
  EXPECT_THAT(Recall(kAda, "run ms", All()), SizeIs(3));
  EXPECT_EQ(Remember(kAda, {Given("other words", id)})[0].outcome, AddOutcome::kIdTaken);
  EXPECT_THAT(Recall(kAda, "run ms", All()), SizeIs(3));
}

TEST_F(MemoryTest, AnIdempotencyKeyMakesACallHappenOnce) {
  RememberOptions once;
  once.idempotency_key = "request 1";
  const std::vector<FactInput> facts = {Given("first"), Given("second")};
  const auto first = memory().Remember(kAda, facts, once);
  const auto second = memory().Remember(kAda, facts, once);
  ASSERT_TRUE(first && second);
  EXPECT_FALSE(first->replayed);
  EXPECT_TRUE(second->replayed);
  EXPECT_EQ(second->facts, first->facts);
  EXPECT_THAT(Recall(kAda, "first", All()), SizeIs(2));
  EXPECT_EQ(CodeOf(memory().Remember(kAda, {facts.data(), 1}, once)), ErrorCode::kConflict);
  Forget(kAda, {first->facts[0].id});
  EXPECT_THAT(Recall(kAda, "first", All()), SizeIs(1));
  EXPECT_EQ(memory().Remember(kAda, facts, once)->facts[0].outcome, AddOutcome::kForgotten);
  EXPECT_THAT(Recall(kAda, "first", All()), SizeIs(1));
}

TEST_F(MemoryTest, AnUpdateMakesNoTwoFactsOfOneTextAndDate) {
  FactInput dated = Given("one", "b");
  dated.date = Date{2023, 5, 8};
  Remember(kAda, {Given("one", "a"), dated});
  Memory::Update update;
  update.date = std::optional<Date>();
  EXPECT_EQ(CodeOf(memory().UpdateFact(kAda, "b", update)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Fact(kAda, "b").version, 1u);
  update.text = "two";
  EXPECT_TRUE(memory().UpdateFact(kAda, "b", update));
  update.text = "one";
  EXPECT_THAT(MessageOf(memory().UpdateFact(kAda, "b", update)), HasSubstr("fact \"a\""));
  EXPECT_THAT(RecallTexts(kAda, "two", All()), testing::UnorderedElementsAre("one", "two"));
}

TEST_F(MemoryTest, WhatIsWrongIsRefusedAndNothingIsChanged) {
  const auto refused = [&](FactInput fact, ErrorCode code, const char* message) {
    const std::vector<FactInput> facts = {Given("good"), std::move(fact)};
    const auto result = memory().Remember(kAda, facts);
    EXPECT_EQ(CodeOf(result), code);
    EXPECT_THAT(MessageOf(result), HasSubstr("fact 2"));
    EXPECT_THAT(MessageOf(result), HasSubstr(message));
    EXPECT_THAT(MessageOf(result), Not(HasSubstr("secret")));
  };
  using namespace std::string_literals;
  refused(Given("secret\0nul"s), ErrorCode::kInvalidArgument, "NUL");
  refused(Given("secret \xED\xA0\x80"), ErrorCode::kInvalidUtf8, "UTF-8");  // a lone surrogate
  refused(Given("secret \xC3"), ErrorCode::kInvalidUtf8, "byte 7");
  refused(Given(" \n"), ErrorCode::kInvalidArgument, "empty");
  refused(Given(std::string(limits::kFactBytes + 1, 'x')), ErrorCode::kTooLarge, "split");
  refused(Given("x", std::string(limits::kGivenIdBytes + 1, 'i')), ErrorCode::kTooLarge, "id");
  FactInput metadata = Given("x");
  metadata.metadata = "[1]";
  refused(metadata, ErrorCode::kInvalidJson, "metadata");
  const auto nested = [](int depth) {
    return "{\"a\":" + std::string(static_cast<size_t>(depth - 1), '[') +
           std::string(static_cast<size_t>(depth - 1), ']') + "}";
  };
  for (const char* nul : {R"({"secret\u0000": 1})", R"({"a": [{"b": "secret\u0000"}]})"}) {
    metadata.metadata = nul;
    refused(metadata, ErrorCode::kInvalidArgument, "NUL");
  }
  for (const int depth : {limits::kMetadataNesting + 1, 5000}) {
    metadata.metadata = nested(depth);
    refused(metadata, ErrorCode::kTooLarge, "nested");
  }
  metadata.metadata = R"({"a": 1, "a": 2})";
  refused(metadata, ErrorCode::kInvalidJson, "twice");
  metadata.metadata = nested(limits::kMetadataNesting);
  EXPECT_TRUE(CheckFactInput(metadata));
  FactInput unknown = Given("x");
  unknown.supersedes = {"nobody"};
  const std::vector<FactInput> both = {Given("good"), unknown};
  EXPECT_EQ(CodeOf(memory().Remember(kAda, both)), ErrorCode::kNotFound);
  EXPECT_EQ(CodeOf(memory().Remember("", {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory().Remember("a\0b"s, {})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(CodeOf(memory().Remember(std::string(limits::kNamespaceBytes + 1, 'n'), {})), ErrorCode::kTooLarge);
  EXPECT_EQ(CodeOf(memory().Remember(kAda, std::vector<FactInput>(limits::kFactsPerBatch + 1, Given("x")))),
            ErrorCode::kTooLarge);
  EXPECT_EQ(memory().Stats()->facts, 0u);
  // The longest text and unusual ones are stored.
  for (const std::string& text : {std::string(limits::kFactBytes, 'x'), "\U0001F600 שלום ไทย"s, "a\nb"s})
    EXPECT_EQ(Fact(kAda, RememberText(kAda, text)).text, text);
}

TEST_F(MemoryTest, ASecondProcessIsToldWhoHasTheFolder) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t owner = ::getpid(), child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const Stopwatch watch;
    MemoryOptions options = Options();
    options.command = "the second";
    const auto opened = Memory::Open(options, &embedder_);
    const std::string message = opened ? "opened" : opened.error().message;
    const bool in_time = watch.Millis() < 1000;
    (void)!::write(pipe[1], message.data(), message.size());
    ::_exit(!opened && opened.error().code == ErrorCode::kInUse && in_time ? 0 : 1);
  }
  ::close(pipe[1]);
  std::string message(4096, '\0');
  message.resize(static_cast<size_t>(std::max<ssize_t>(::read(pipe[0], message.data(), message.size()), 0)));
  ::close(pipe[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_THAT(message, HasSubstr("in use by pid " + std::to_string(owner) + " (inferscale)"));
}

TEST_F(MemoryTest, TenThousandFactsGoInOneCall) {
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<FactInput> facts;
    for (int i = 0; i < (batch < 2 ? 5000 : 1); ++i)
      facts.push_back(Given("fact " + std::to_string(batch) + " " + std::to_string(i)));
    Remember(kAda, facts);
  }
  RememberText(kAda, "another one", "kept");
  ASSERT_THAT(Recall(kAda, "fact"), SizeIs(10));
  const Stopwatch watch;
  const auto deleted = memory().ForgetWhere(kAda, R"({"text": {"contains": "fact"}})");
  RecordProperty("milliseconds", std::to_string(watch.Millis()));
  EXPECT_LT(watch.Millis(), 60'000);  // about a second; a machine that does other work besides
  ASSERT_TRUE(deleted) << deleted.error().message;
  EXPECT_EQ(deleted->deleted, 10'001u);
  EXPECT_THAT(RecallTexts(kAda, "fact", All()), ElementsAre("another one"));
}

TEST_F(MemoryTest, ChangesAreTold) {
  std::vector<FactSeq> removed;
  size_t dead = 0;
  memory().SetChangeListener([&](const Change& change) {
    removed.insert(removed.end(), change.removed.begin(), change.removed.end());
    dead += change.dead.size();
  });
  Remember(kAda, {Given("one", "a"), Given("two", "b")});
  ASSERT_TRUE(Encode(kAda, "b", {"a"}));
  const FactSeq seq = Fact(kAda, "a").seq;
  Forget(kAda, {"a"});
  EXPECT_THAT(removed, ElementsAre(seq));
  EXPECT_EQ(dead, 1u);
}

TEST_F(MemoryTest, ALostCatalogIsNoNewMemory) {
  RememberText(kAda, "fact one");
  Close();
  const std::filesystem::path catalog = Options().data_folder / "catalog.db";
  std::filesystem::resize_file(catalog, 0);
  EXPECT_EQ(CodeOf(Memory::Open(Options(), &embedder_)), ErrorCode::kCorrupt);
  EXPECT_EQ(std::filesystem::file_size(catalog), 0u) << "nothing is written over it";
  std::filesystem::remove(catalog);
  EXPECT_TRUE(Memory::IsIn(Options().data_folder));
  EXPECT_EQ(CodeOf(Memory::Open(Options(), &embedder_)), ErrorCode::kCorrupt);
  EXPECT_FALSE(std::filesystem::exists(catalog));
  std::filesystem::remove_all(Options().data_folder);
  EXPECT_FALSE(Memory::IsIn(Options().data_folder));
  Open();
}

}  // namespace
}  // namespace inferscale
