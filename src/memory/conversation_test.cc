// A chat from memory with the embedded engine: what stands in its prompts, what the engine keeps of them, and that
// nothing said or forgotten goes astray.
#include "memory/conversation.h"

#include <gmock/gmock.h>

#include "memory/engine_memory_test_util.h"
#include "memory/memory_source.h"
#include "memory/text_assembler.h"

namespace inferscale {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class ConversationTest : public EngineMemoryTest {
 protected:
  void SetUp() override {
    EngineMemoryTest::SetUp();
    Use(NewEngine());
  }
  void Use(std::unique_ptr<WatchedEngine> engine) {
    engine_ = std::move(engine);
    layout_.emplace(PromptLayout::Make(engine_->tokenizer(), engine_->chat_template()));
    sources_.clear();
    for (const char* ns : {kAda, kBob}) sources_.emplace(ns, MemorySource(memory(), *engine_, ns));
  }
  // Three facts on birds and three on fish, encoded.
  void RememberAnimals(const std::string& ns, const std::string& name) {
    std::vector<FactInput> facts;
    for (const char* n : {"1", "2", "3"}) {
      facts.push_back(Given(name + " saw bird number " + n, "bird" + std::string(n)));
      facts.push_back(Given(name + " fed fish called fin" + n, "fish" + std::string(n)));
    }
    RememberNow(ns, facts);
    Encode(ns);
  }
  void Encode(const std::string& ns) {
    auto encoder = FactEncoder::Make(memory(), *engine_, layout_->header(), {});
    ASSERT_TRUE(encoder);
    Run(*encoder, ns);
    ASSERT_EQ(Queue().queued, 0u);
  }
  Conversation Talk(const std::string& ns, const AnswerOptions& options = kOptions) {
    return Conversation({*engine_, *layout_, sources_.at(ns)}, memory(), ns, options);
  }
  // Expects success.
  TurnAnswer Ask(Conversation& conversation, const std::string& message) {
    auto turn = conversation.Ask(message, nullptr);
    EXPECT_TRUE(turn) << turn.error().message;
    return turn ? std::move(*turn) : TurnAnswer();
  }
  std::string Prompt(size_t back = 0) {  // of the last answer, or of one before
    const std::vector<GenerateRequest> answers = engine_->answers();
    std::string text;
    for (const TokenId token : answers.at(answers.size() - 1 - back).plan.prompt_tokens)
      text += engine_->tokenizer().Piece(token);
    return text;
  }
  std::vector<std::string> AddedIds(const TurnAnswer& turn) {
    std::vector<std::string> ids;
    for (const size_t rank : turn.added) ids.push_back(turn.answer.ranked.at(rank).id);
    std::sort(ids.begin(), ids.end());
    return ids;
  }
  // The same request, by an engine that remembers nothing of a conversation.
  std::string AnswerAfresh(GenerateRequest request) {
    request.conversation = {};
    auto stream = engine_->Submit(std::move(request)).value();
    const std::function<void(std::string_view)> nobody;
    TextAssembler text(engine_->tokenizer(), nobody);
    for (;;) {
      const auto token = stream->Next().value();
      if (!token) break;
      text.Add(*token);
    }
    text.Finish();
    return text.text();
  }

  static constexpr AnswerOptions kOptions{.mode = AnswerMode::kKv, .top_k = 3, .tail = 1, .max_tokens = 12};
  static constexpr char kBirds[] = "which bird number was seen";
  static constexpr char kFish[] = "which fish called fin was fed";
  std::optional<PromptLayout> layout_;
  std::map<std::string, MemorySource> sources_;
};

TEST_F(ConversationTest, FactsStayInFrontAndNewOnesStandBeforeTheirMessage) {
  RememberAnimals(kAda, "Ada");
  Conversation conversation = Talk(kAda);
  const TurnAnswer first = Ask(conversation, kBirds);
  EXPECT_TRUE(first.new_plan);
  EXPECT_EQ(first.sticky, 3u);
  EXPECT_THAT(first.added, IsEmpty());
  EXPECT_EQ(first.answer.reused_tokens, 0u);
  EXPECT_EQ(engine_->answers().back().records.size(), 2u) << "all but the tail";
  const std::string front = Prompt().substr(0, Prompt().find(kBirds));
  for (const char* n : {"1", "2", "3"}) EXPECT_THAT(front, HasSubstr("Ada saw bird number " + std::string(n)));
  EXPECT_THAT(Prompt(), Not(HasSubstr("fish")));

  const TurnAnswer second = Ask(conversation, kFish);
  EXPECT_FALSE(second.new_plan);
  EXPECT_EQ(second.sticky, 3u);
  EXPECT_THAT(AddedIds(second), ElementsAre("fish1", "fish2", "fish3"));
  EXPECT_TRUE(Prompt().starts_with(front)) << Prompt();
  const std::string behind = Prompt().substr(Prompt().find(kBirds));
  EXPECT_THAT(behind, HasSubstr(first.answer.text));
  const size_t memories = behind.find("More memories:\n"), question = behind.find(kFish);
  ASSERT_LT(memories, question);
  for (const char* n : {"1", "2", "3"}) {
    const size_t fact = behind.find("Ada fed fish called fin" + std::string(n) + "\n");
    EXPECT_LT(memories, fact);
    EXPECT_LT(fact, question);
  }
  const size_t best = second.answer.ranked.at(0).id.back() - '0';
  EXPECT_LT(behind.find("fin" + std::to_string(best) + "\n\n" + kFish), question) << "best last";
  EXPECT_GT(second.answer.reused_tokens, first.answer.injected_tokens);

  const TurnAnswer third = Ask(conversation, kFish);
  EXPECT_FALSE(third.new_plan);
  EXPECT_THAT(third.added, IsEmpty()) << "the prompt has them";
  EXPECT_GT(third.answer.reused_tokens, second.answer.reused_tokens);
  const TurnAnswer fourth = Ask(conversation, kBirds);
  EXPECT_THAT(fourth.added, IsEmpty());
  EXPECT_GT(fourth.answer.reused_tokens, third.answer.reused_tokens);
  EXPECT_LT(fourth.answer.computed_tokens, fourth.answer.prompt_tokens / 3);
  EXPECT_EQ(conversation.turns(), 4u);
}

TEST_F(ConversationTest, AnswersAreThoseOfAFreshEngine) {
  RememberAnimals(kAda, "Ada");
  std::vector<std::string> answers;
  {
    Conversation conversation = Talk(kAda);
    for (const char* message : {kBirds, kFish, "and then", kBirds})
      answers.push_back(Ask(conversation, message).answer.text);
  }
  const std::vector<GenerateRequest> requests = engine_->answers();
  ASSERT_EQ(requests.size(), answers.size());
  for (size_t i = 0; i < answers.size(); ++i) {
    EXPECT_FALSE(answers[i].empty());
    EXPECT_EQ(AnswerAfresh(requests[i]), answers[i]) << i;
    EXPECT_EQ(requests[i].records.size(), 2u);
  }
  EXPECT_NE(answers[0], answers[3]) << "they depend on what was said";
}

// What changes a fact of the prompt, and whether its old words are gone.
struct PlanChange {
  const char* name;
  std::function<void(Memory&)> change;
  const char* gone;  // a text that must not be in a prompt any more
  bool new_plan = true;
};

void Forget(Memory& memory, const std::string& id) { ASSERT_TRUE(memory.Forget(kAda, {&id, 1})); }
void Update(Memory& memory, const char* id) {
  Memory::Update update;
  update.text = "Ada saw no bird number at all";
  ASSERT_TRUE(memory.UpdateFact(kAda, id, update));
}

class ConversationPlanTest : public ConversationTest, public ::testing::WithParamInterface<PlanChange> {};

TEST_P(ConversationPlanTest, IsMadeAnewWhenItsFactsChange) {
  RememberNow(kAda, {Given("something else was first", "before")});  // all records behind it have seen it
  RememberAnimals(kAda, "Ada");
  RememberNow(kAda, {Given("nobody has seen this yet", "later")});
  Encode(kAda);
  Conversation conversation = Talk(kAda);
  Ask(conversation, kBirds);
  const TurnAnswer second = Ask(conversation, kFish);
  ASSERT_FALSE(second.new_plan);
  ASSERT_EQ(second.added.size(), 3u);
  GetParam().change(memory());
  const TurnAnswer third = Ask(conversation, kBirds);
  EXPECT_EQ(third.new_plan, GetParam().new_plan);
  EXPECT_TRUE(third.new_plan || third.answer.reused_tokens > second.answer.reused_tokens);
  EXPECT_THAT(Prompt(), HasSubstr(second.answer.text)) << "what was said stays";
  EXPECT_THAT(Prompt(), Not(HasSubstr(GetParam().gone)));
  EXPECT_EQ(Prompt().find("More memories") == std::string::npos, third.new_plan);
  // Pinned records have seen nothing that is gone.
  const std::vector<RecordHandle> records = engine_->answers().back().records;
  const std::map<std::string, KvRow> rows = records.empty() ? std::map<std::string, KvRow>() : Rows(kAda);
  for (const RecordHandle& record : records)
    EXPECT_EQ(rows.at(record->key.fact_id).window_digest, record->key.window_digest);
  EXPECT_FALSE(Ask(conversation, kBirds).new_plan);
}

INSTANTIATE_TEST_SUITE_P(
    , ConversationPlanTest,
    ::testing::Values(
        PlanChange{"Deleted", [](Memory& memory) { Forget(memory, "bird2"); }, "bird number 2"},
        PlanChange{"DeletedOfAMessage", [](Memory& memory) { Forget(memory, "fish2"); }, "fin2"},
        PlanChange{"Updated", [](Memory& memory) { Update(memory, "bird1"); }, "bird number 1"},
        PlanChange{"UpdatedOfAMessage", [](Memory& memory) { Update(memory, "fish3"); }, "fin3"},
        PlanChange{"Superseded", [](Memory& memory) { ASSERT_TRUE(memory.Supersede(kAda, "bird3", "fish1")); },
                   "bird number 3"},
        PlanChange{"SeenOneDeleted", [](Memory& memory) { Forget(memory, "before"); }, "something else"},
        PlanChange{"NamespaceDeleted", [](Memory& memory) { ASSERT_TRUE(memory.ForgetNamespace(kAda)); }, "Ada"},
        PlanChange{"AnotherOneDeleted", [](Memory& memory) { Forget(memory, "later"); }, "nobody has", false}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_F(ConversationTest, RestartForgetsWhatWasSaid) {
  RememberAnimals(kAda, "Ada");
  Conversation conversation = Talk(kAda);
  const TurnAnswer first = Ask(conversation, kBirds);
  Ask(conversation, kFish);
  conversation.Restart();
  EXPECT_EQ(conversation.turns(), 0u);
  const TurnAnswer again = Ask(conversation, kBirds);
  EXPECT_TRUE(again.new_plan);
  EXPECT_EQ(again.answer.reused_tokens, 0u) << "another conversation for the engine";
  EXPECT_EQ(Prompt(), Prompt(2));
  EXPECT_EQ(again.answer.text, first.answer.text);
}

TEST_F(ConversationTest, ACancelledAnswerCountsAsFarAsItCame) {
  RememberAnimals(kAda, "Ada");
  AnswerOptions options = kOptions;
  options.max_tokens = 400;
  Conversation whole = Talk(kAda, options), conversation = Talk(kAda, options);
  whole.Cancel();  // nothing is asked: not the next answer's
  const std::string all = Ask(whole, kBirds).answer.text;
  const auto turn = conversation.Ask(kBirds, [&](std::string_view) { conversation.Cancel(); });
  ASSERT_TRUE(turn) << turn.error().message;
  EXPECT_EQ(turn->answer.finish, FinishReason::kCancelled);
  std::string text = turn->answer.text;
  EXPECT_FALSE(text.empty());
  EXPECT_LT(text.size(), all.size() / 2);
  while (text.ends_with("\uFFFD")) text.resize(text.size() - 3);  // the last character was cut
  EXPECT_TRUE(all.starts_with(text)) << all << "\n" << text;
  EXPECT_EQ(conversation.turns(), 1u);
  const TurnAnswer next = Ask(conversation, kFish);
  EXPECT_THAT(Prompt(), HasSubstr(turn->answer.text));
  EXPECT_NE(next.answer.finish, FinishReason::kCancelled);
  EXPECT_GT(next.answer.reused_tokens, turn->answer.injected_tokens) << "the engine kept what was computed";
}

TEST_F(ConversationTest, CancelsAnAnswerThatHasNotBegun) {
  RememberAnimals(kAda, "Ada");
  Conversation conversation = Talk(kAda);
  engine_->BeforeAnswer([&]() -> Status {
    conversation.Cancel();
    return {};
  });
  const TurnAnswer turn = Ask(conversation, kBirds);
  EXPECT_EQ(turn.answer.finish, FinishReason::kCancelled);
  EXPECT_EQ(turn.answer.text, "") << "though the engine may have made some of it before it heard";
  engine_->BeforeAnswer(nullptr);
  EXPECT_EQ(Ask(conversation, kBirds).answer.finish, FinishReason::kLength);
}

TEST_F(ConversationTest, AfterAnErrorItIsAsBefore) {
  RememberAnimals(kAda, "Ada");
  Conversation plain = Talk(kAda), conversation = Talk(kAda);
  for (Conversation* each : {&plain, &conversation}) Ask(*each, kBirds);
  const auto fails = [&](const std::string& message, ErrorCode code) {
    const auto turn = conversation.Ask(message, nullptr);
    ASSERT_FALSE(turn);
    EXPECT_EQ(turn.error().code, code);
    EXPECT_EQ(conversation.turns(), 1u);
  };
  std::string long_message;
  for (int i = 0; i < 2000; ++i) long_message += "fish called fin ";
  fails(long_message, ErrorCode::kPromptTooLong);
  fails("", ErrorCode::kInvalidArgument);
  fails("\xFF", ErrorCode::kInvalidUtf8);
  engine_->BeforeAnswer([] { return Fail(ErrorCode::kEngine, "broken"); });
  fails(kFish, ErrorCode::kEngine);
  engine_->BeforeAnswer(nullptr);
  const TurnAnswer expected = Ask(plain, kFish), turn = Ask(conversation, kFish);
  EXPECT_EQ(Prompt(), Prompt(1));
  EXPECT_EQ(turn.answer.text, expected.answer.text);
  EXPECT_EQ(AddedIds(turn), AddedIds(expected));

  // The same while the plan is made anew.
  Forget(kAda, {"bird1"});
  engine_->BeforeAnswer([] { return Fail(ErrorCode::kEngine, "broken"); });
  EXPECT_FALSE(conversation.Ask(kBirds, nullptr));
  engine_->BeforeAnswer(nullptr);
  EXPECT_TRUE(Ask(conversation, kBirds).new_plan);
  EXPECT_TRUE(Ask(plain, kBirds).new_plan);
  EXPECT_EQ(Prompt(), Prompt(1));
}

TEST_F(ConversationTest, GrowsUntilFactsYieldAndThenItIsTooLong) {
  Use(NewEngine(1280));
  RememberAnimals(kAda, "Ada");
  AnswerOptions options = kOptions;
  options.top_k = 6;
  options.max_tokens = 4;
  Conversation conversation = Talk(kAda, options);
  const std::string message = "bird or fish";
  size_t turns = 0, fewest = 6;
  for (;; ++turns) {
    ASSERT_LT(turns, 100u);
    const auto turn = conversation.Ask(message, nullptr);
    if (!turn) {
      EXPECT_EQ(turn.error().code, ErrorCode::kPromptTooLong);
      break;
    }
    fewest = std::min(fewest, turn->sticky);
    EXPECT_EQ(turn->sticky + turn->answer.dropped.size(), 6u) << turns;
    EXPECT_EQ(turn->new_plan, turns == 0 || turn->sticky < 6) << turns;
  }
  EXPECT_GT(turns, 3u);
  EXPECT_EQ(fewest, 0u) << "facts go first, what was said never";
  EXPECT_EQ(conversation.turns(), turns);
  EXPECT_FALSE(conversation.Ask(message, nullptr));
  conversation.Restart();
  EXPECT_EQ(Ask(conversation, message).sticky, 6u);
}

TEST_F(ConversationTest, AFactThatDidNotFitIsNotTakenForKnown) {
  Use(NewEngine(1280));
  RememberNow(kAda, {Given("bird number 1"), Given("owl " + std::string(980, 'y'))});
  Conversation conversation = Talk(kAda);
  const TurnAnswer first = Ask(conversation, "bird number " + std::string(300, 'x'));
  EXPECT_EQ(first.sticky, 1u);
  EXPECT_THAT(first.answer.dropped, ElementsAre(1u));
  const TurnAnswer second = Ask(conversation, "bird number");
  EXPECT_TRUE(second.new_plan) << "tried again";
}

TEST_F(ConversationTest, ConversationsDoNotSeeEachOther) {
  RememberAnimals(kAda, "Ada");
  RememberAnimals(kBob, "Bob");
  std::vector<std::string> alone;
  {
    Conversation ada = Talk(kAda);
    for (const char* message : {kBirds, kFish, kBirds}) alone.push_back(Ask(ada, message).answer.text);
  }
  Conversation ada = Talk(kAda), bob = Talk(kBob), other = Talk(kAda);
  for (size_t i = 0; i < 3; ++i) {
    const char* message = i == 1 ? kFish : kBirds;
    EXPECT_EQ(Ask(ada, message).answer.text, alone[i]) << i;
    EXPECT_THAT(Prompt(), Not(testing::AnyOf(HasSubstr("Bob"), HasSubstr("secretword"))));
    Ask(bob, std::string("bobs secretword ") + message);
    EXPECT_THAT(Prompt(), Not(HasSubstr("Ada")));
    Ask(other, std::string("others secretword ") + message);
    EXPECT_THAT(Prompt(), Not(testing::AnyOf(HasSubstr("Bob"), HasSubstr("bobs"))));
  }
}

TEST_F(ConversationTest, TextModeHasTheSameWords) {
  RememberAnimals(kAda, "Ada");
  AnswerOptions options = kOptions;
  options.mode = AnswerMode::kText;
  Conversation text = Talk(kAda, options), kv = Talk(kAda);
  const TurnAnswer first = Ask(text, kBirds);
  EXPECT_TRUE(engine_->answers().back().plan.spans.empty());
  EXPECT_EQ(first.answer.injected_tokens, 0u);
  EXPECT_GT(Ask(text, kFish).answer.reused_tokens, first.answer.prompt_tokens / 2);
  EXPECT_GT(Ask(kv, kBirds).answer.injected_tokens, 0u);
  EXPECT_EQ(Prompt(), Prompt(2));
}

TEST_F(ConversationTest, WithoutFactsItIsAPlainChat) {
  Conversation conversation = Talk(kBob);
  const TurnAnswer first = Ask(conversation, kBirds);
  EXPECT_EQ(first.sticky, 0u);
  EXPECT_THAT(first.answer.ranked, IsEmpty());
  RememberAnimals(kBob, "Bob");
  EXPECT_EQ(Ask(conversation, kBirds).added.size(), 3u) << "they are new to it";
}

}  // namespace
}  // namespace inferscale
