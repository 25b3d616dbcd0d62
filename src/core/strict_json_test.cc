#include "core/strict_json.h"

#include <gmock/gmock.h>

#include <string>

#include "base/limits.h"

namespace inferscale {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Complaint(std::string_view text, ErrorCode code = ErrorCode::kInvalidJson) {
  const auto parsed = ParseStrictJson(text);
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, code);
  return parsed.error().message;
}

TEST(StrictJson, TakesWhatIsJson) {
  const auto parsed = ParseStrictJson(R"({"a": [1, {"a": 2}, {"a": 3}], "b": {"a": null}})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ((*parsed)["a"][2]["a"], 3);
  EXPECT_TRUE(ParseStrictJson("[]"));
  EXPECT_TRUE(ParseStrictJson("\"text\""));
}

TEST(StrictJson, AKeyTwiceInOneObjectIsAnError) {
  EXPECT_THAT(Complaint(R"({"text": "a", "text": "b"})"), HasSubstr("the key \"text\" is there twice"));
  EXPECT_THAT(Complaint(R"({"x": [{"k": 1}, {"k": 1, "l": 2, "k": 3}]})"), HasSubstr("the key \"k\""));
  EXPECT_THAT(Complaint(R"({"\u0061": 1, "a": 2})"), HasSubstr("the key \"a\""));
}

TEST(StrictJson, TooDeepIsAnError) {
  const auto nested = [](size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_TRUE(ParseStrictJson(nested(limits::kJsonNesting)));
  for (const size_t depth : {size_t{limits::kJsonNesting} + 2, size_t{1'000'000}})
    EXPECT_THAT(Complaint(nested(depth), ErrorCode::kTooLarge), HasSubstr("nested more than 1000 deep"));
}

TEST(StrictJson, LongKeysAreCutAtACharacter) {
  std::string key;
  for (int i = 0; i < 50; ++i) key += "é";
  const std::string complaint = Complaint("{\"" + key + "\": 1, \"" + key + "\": 2}");
  EXPECT_THAT(complaint, HasSubstr(key.substr(0, 64) + "\""));
  EXPECT_THAT(complaint, Not(HasSubstr(key)));
}

TEST(StrictJson, MistakesNameTheByteAndQuoteNothing) {
  EXPECT_THAT(Complaint(R"({"text": "secret" "b"})"), HasSubstr("not valid JSON at byte 21"));
  EXPECT_THAT(Complaint(R"({"text": "secret" "b"})"), Not(HasSubstr("secret")));
  EXPECT_THAT(Complaint("1e999999"), HasSubstr("a number is too large"));
  EXPECT_NE(Complaint(""), "");
}

}  // namespace
}  // namespace inferscale
