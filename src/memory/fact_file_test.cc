#include "memory/fact_file.h"

#include <gtest/gtest.h>

#include "base/limits.h"

namespace inferscale {
namespace {

FactFile Good(std::string_view content) {
  auto file = ParseFactFile(content, "f.jsonl");
  EXPECT_TRUE(file.has_value()) << (file ? "" : file.error().message);
  return file ? std::move(*file) : FactFile{};
}

void ExpectBad(std::string_view content, ErrorCode code, const std::string& part) {
  const auto file = ParseFactFile(content, "f.jsonl");
  ASSERT_FALSE(file.has_value()) << content.substr(0, 100);
  EXPECT_EQ(file.error().code, code) << file.error().message;
  EXPECT_NE(file.error().message.find(part), std::string::npos) << file.error().message << "\n  has no: " << part;
  EXPECT_LT(file.error().message.size(), 500u);
}

TEST(FactFileTest, ReadsAllFields) {
  const FactFile file = Good(R"({"text": "Nora has a cat", "date": "2023-05-08", "id": "f1", "turn": "t7", "score": 1}
{"text": "She is grey é\u00e9\ud83d\ude00"})");
  ASSERT_EQ(file.facts.size(), 2u);
  EXPECT_EQ(file.facts[0].id, "f1");
  EXPECT_EQ(file.facts[0].text, "Nora has a cat");
  EXPECT_EQ(file.facts[0].date, (Date{2023, 5, 8}));
  EXPECT_EQ(file.facts[0].turn, "t7");
  EXPECT_EQ(file.facts[1].text, "She is grey éé😀");
  EXPECT_FALSE(file.facts[1].date.has_value());
  EXPECT_TRUE(file.notes.empty());
}

TEST(FactFileTest, ToleratesMarksLineEndsAndBlankLines) {
  const FactFile file =
      Good("\xEF\xBB\xBF\r\n{\"text\":\"a\"}\r\n \t \r\n\n{\"text\":\"b\",\"date\":null,\"id\":null}");
  ASSERT_EQ(file.facts.size(), 2u);
  EXPECT_EQ(file.facts[1].text, "b");
}

TEST(FactFileTest, IdsFollowTextAndDateAlone) {
  const FactFile one = Good("{\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"text\":\"a\",\"date\":\"2023-05-08\"}");
  ASSERT_EQ(one.facts.size(), 3u);
  EXPECT_EQ(one.facts[0].id.size(), 17u);
  EXPECT_EQ(one.facts[0].id[0], 'f');
  EXPECT_NE(one.facts[0].id, one.facts[1].id);
  EXPECT_NE(one.facts[0].id, one.facts[2].id);
  EXPECT_EQ(Good("{\"text\":\"b\"}").facts[0].id, one.facts[1].id) << "the place in the file must not matter";
}

TEST(FactFileTest, ATurnThatIsNotThereIsNamedWithItsLine) {
  const FactFile file = Good("{\"text\":\"a\"}\n\n{\"text\":\"b\",\"turn\":\"t1\"}\n{\"text\":\"c\",\"turn\":\"t2\"}");
  ASSERT_EQ(file.lines, (std::vector<size_t>{1, 3, 4}));
  std::vector<Turn> turns(1);
  turns[0].id = "t2";
  const Status checked = CheckTurns(file, "f.jsonl", turns, "t.jsonl");
  ASSERT_FALSE(checked.has_value());
  EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(checked.error().message.find("f.jsonl: line 3"), std::string::npos) << checked.error().message;
  EXPECT_NE(checked.error().message.find("\"t1\""), std::string::npos) << checked.error().message;
  turns.push_back(turns[0]);
  turns[1].id = "t1";
  EXPECT_TRUE(CheckTurns(file, "f.jsonl", turns, "t.jsonl").has_value());
}

TEST(FactFileTest, RepeatedFactsAreOne) {
  const FactFile file = Good(
      "{\"text\":\"a\"}\n{\"text\":\"a\",\"turn\":\"t1\"}\n{\"text\":\"a\"}\n{\"text\":\"a\",\"id\":\"x\"}\n"
      "{\"text\":\"a\",\"id\":\"y\"}");
  ASSERT_EQ(file.facts.size(), 3u) << "facts with ids of their own are facts of their own";
  ASSERT_EQ(file.notes.size(), 1u);
  EXPECT_EQ(file.notes[0], "f.jsonl: 2 facts were left out: their text and date stand in the file already");
  EXPECT_NE(Good("{\"text\":\"a\"}\n{\"text\":\"a\"}").notes[0].find("1 fact was"), std::string::npos);
}

TEST(FactFileTest, ErrorsNameTheLineAndTheRemedy) {
  const std::string ok = "{\"text\":\"a\"}\n\n";  // what follows is line 3
  ExpectBad(ok + "{\"text\": \"b\"", ErrorCode::kInvalidJson, "f.jsonl: line 3: not valid JSON at byte 13");
  ExpectBad(ok + "{\"text\": \"secret", ErrorCode::kInvalidJson, "line 3");
  ExpectBad("{\"text\":\"a\",\"text\":\"b\"}", ErrorCode::kInvalidJson, "line 1: the key \"text\" is there twice");
  ExpectBad("{\"text\":\"a\"}\r{\"text\":\"b\"}", ErrorCode::kInvalidJson, "lines end with \\n, not with \\r");
  ExpectBad(ok + "nonsense", ErrorCode::kInvalidJson, "line 3: not valid JSON at byte 2");
  ExpectBad(ok + "{\"text\":\"a\",\"score\":7e755}", ErrorCode::kInvalidJson, "line 3: a number is too large");
  ExpectBad(ok + R"({"text":"b","score":7e755})", ErrorCode::kInvalidJson, "line 3: a number is too large");
  ExpectBad(ok + "[\"text\"]", ErrorCode::kInvalidJson, "line 3: not a JSON object");
  ExpectBad(ok + "{\"text\":\"a\"} {\"text\":\"b\"}", ErrorCode::kInvalidJson, "one JSON object on each line");
  ExpectBad(ok + "{\"date\":\"2023-05-08\"}", ErrorCode::kInvalidArgument, "line 3: \"text\" is missing");
  ExpectBad(ok + "{\"text\":null}", ErrorCode::kInvalidArgument, "\"text\" is missing");
  ExpectBad(ok + "{\"text\":\" \\n\\t\"}", ErrorCode::kInvalidArgument, "line 3: \"text\" is empty");
  ExpectBad(ok + "{\"text\":5}", ErrorCode::kInvalidArgument, "line 3: \"text\" is number, not a string");
  ExpectBad(ok + "{\"text\":[\"a\"]}", ErrorCode::kInvalidArgument, "is array");
  ExpectBad(ok + "{\"text\":\"b\",\"id\":7}", ErrorCode::kInvalidArgument, "line 3: \"id\" is number");
  ExpectBad(ok + "{\"text\":\"b\",\"id\":\"\"}", ErrorCode::kInvalidArgument, "line 3: \"id\" is empty");
  ExpectBad(ok + "{\"text\":\"b\",\"turn\":{}}", ErrorCode::kInvalidArgument, "line 3: \"turn\" is object");
  ExpectBad(ok + "{\"text\":\"b\",\"date\":\"8 May 2023\"}", ErrorCode::kInvalidDate,
            "line 3: \"date\": \"8 May 2023\" is not a date: write it as YYYY-MM-DD");
  ExpectBad(ok + "{\"text\":\"b\",\"date\":\"2023-02-30\"}", ErrorCode::kInvalidDate, "line 3");
  ExpectBad(ok + "{\"text\":\"b\",\"date\":\"\"}", ErrorCode::kInvalidDate, "line 3");
  ExpectBad(ok + "{\"text\":\"b\",\"date\":20230508}", ErrorCode::kInvalidArgument, "line 3: \"date\" is number");
}

TEST(FactFileTest, ErrorsDoNotShowTheText) {
  const auto file = ParseFactFile("{\"text\": \"a secret\tthing", "f.jsonl");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().message.find("secret"), std::string::npos) << file.error().message;
}

TEST(FactFileTest, EncodingErrors) {
  ExpectBad("{\"text\":\"a\"}\n{\"text\":\"b\xC3(\"}", ErrorCode::kInvalidUtf8,
            "line 2: byte 11 of the line is not valid UTF-8");
  ExpectBad("{\"text\":\"\xED\xA0\x80\"}", ErrorCode::kInvalidUtf8, "line 1: byte 10");
  ExpectBad("\xFF\xFE{\0", ErrorCode::kInvalidUtf8, "UTF-16");
  ExpectBad(std::string("{\"text\":\"a\0\"}", 13), ErrorCode::kInvalidJson, "line 1: byte 11 of the line is NUL");
  ExpectBad(R"({"text":"a\u0000b"})", ErrorCode::kInvalidArgument, "line 1: \"text\" has a NUL character");
  ExpectBad(R"({"text":"a","id":"\u0000"})", ErrorCode::kInvalidArgument, "\"id\" has a NUL character");
  for (const char* lone :
       {R"({"text":"\ud800"})", R"({"text":"\udc00"})", R"({"text":"\ud800x"})", R"({"text":"\ud800\ud800"})"})
    ExpectBad(lone, ErrorCode::kInvalidJson, "surrogate");
}

TEST(FactFileTest, DuplicateIds) {
  ExpectBad("{\"text\":\"a\",\"id\":\"x\"}\n{\"text\":\"c\"}\n\n{\"text\":\"b\",\"id\":\"x\"}",
            ErrorCode::kInvalidArgument, "f.jsonl: line 4: the id \"x\" stands on line 1 too");
}

TEST(FactFileTest, SizeLimits) {
  const auto with_text = [](size_t bytes) { return "{\"text\":\"" + std::string(bytes, 'x') + "\"}"; };
  EXPECT_EQ(Good(with_text(limits::kFactBytes)).facts[0].text.size(), limits::kFactBytes);
  ExpectBad(with_text(limits::kFactBytes + 1), ErrorCode::kTooLarge, "line 1: \"text\" has 262145 bytes");
  ExpectBad(with_text(limits::kJsonLineBytes), ErrorCode::kTooLarge, "line 1: it is longer than");
  const auto with_id = [](size_t bytes) { return "{\"text\":\"x\",\"id\":\"" + std::string(bytes, 'i') + "\"}"; };
  EXPECT_EQ(Good(with_id(limits::kGivenIdBytes)).facts.size(), 1u);
  ExpectBad(with_id(limits::kGivenIdBytes + 1), ErrorCode::kTooLarge, "line 1: \"id\" has");
  ExpectBad("{\"text\":" + std::string(100'000, '['), ErrorCode::kInvalidJson, "line 1");
}

TEST(FactFileTest, NothingInIt) {
  for (const char* content : {"", "\n \r\n", "\xEF\xBB\xBF"})
    ExpectBad(content, ErrorCode::kInvalidArgument, "f.jsonl holds no facts: write one like {");
}

TEST(TurnFileTest, ReadsAndRefuses) {
  const auto turns = ParseTurnFile(
      "{\"id\":\"t1\",\"speaker\":\"Nora\",\"text\":\"Hi\",\"date\":\"2023-05-08\"}\n"
      "{\"id\":\"t2\",\"speaker\":\"\",\"text\":\"Yes\"}",
      "t.jsonl");
  ASSERT_TRUE(turns.has_value()) << turns.error().message;
  ASSERT_EQ(turns->size(), 2u);
  EXPECT_EQ((*turns)[0].id, "t1");
  EXPECT_EQ((*turns)[0].date, (Date{2023, 5, 8}));
  for (const auto& [content, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "holds no turns"},
           {R"({"speaker":"a","text":"b"})", "line 1: \"id\" is missing"},
           {R"({"id":"t","text":"b"})", "line 1: \"speaker\" is missing"},
           {R"({"id":"t","speaker":"a"})", "line 1: \"text\" is missing"},
           {R"({"id":1,"speaker":"a","text":"b"})", "\"id\" is number"},
           {R"({"id":"t","speaker":"a","text":"b","date":"x"})", "\"date\""},
           {"{\"id\":\"t\",\"speaker\":\"a\",\"text\":\"b\"}\n{\"id\":\"t\",\"speaker\":\"a\",\"text\":\"c\"}",
            "line 2: the id \"t\" stands on line 1 too"}}) {
    const auto bad = ParseTurnFile(content, "t.jsonl");
    ASSERT_FALSE(bad.has_value()) << content;
    EXPECT_NE(bad.error().message.find(part), std::string::npos) << bad.error().message;
  }
}

}  // namespace
}  // namespace inferscale
