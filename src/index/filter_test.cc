#include "index/filter.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/limits.h"
#include "core/instant.h"

namespace inferscale {
namespace {

FilterFact Anna() {
  FilterFact fact;
  fact.id = "f1";
  fact.text = "Anna moved to STRASSBURG in May";
  fact.user_id = "anna";
  fact.run_id = "r7";
  fact.created_us = ParseTime("2024-03-01T23:30:00Z")->begin_us;
  fact.updated_us = ParseTime("2024-03-05T08:00:00Z")->begin_us;
  fact.date = Date{2023, 5, 8};
  fact.metadata = R"({"topic": "Travel", "score": 3, "ratio": 0.5, "done": true, "none": null, "tags": ["a", "B", 7],
                      "seen": "2024-03-01T10:00:00+02:00", "place": {"city": "Strassburg", "a.b": 1}, "x.y": "dotted",
                      "version": "1.10"})";
  return fact;
}

bool Matches(const std::string& json, const FilterFact& fact = Anna()) {
  const auto filter = Filter::Parse(json);
  EXPECT_TRUE(filter) << json << ": " << (filter ? "" : filter.error().message);
  return filter && filter->Matches(fact);
}

TEST(FilterTest, EverythingMatchesTheEmptyFilter) {
  for (const char* json : {"", "{}"}) {
    const auto filter = Filter::Parse(json);
    ASSERT_TRUE(filter);
    EXPECT_TRUE(filter->empty());
    EXPECT_TRUE(filter->Matches(Anna()));
    EXPECT_TRUE(filter->Matches(FilterFact()));
  }
  EXPECT_FALSE(Filter::Parse(R"({"id": "f1"})")->empty());
}

TEST(FilterTest, WhatHolds) {
  for (const char* json : {
           R"({"user_id": "anna"})",
           R"({"user_id": {"eq": "anna"}, "run_id": "*"})",
           R"({"user_id": {"in": ["ben", "anna"]}})",
           R"({"user_id": {"nin": ["ben"]}, "agent_id": {"ne": "bot"}})",
           R"({"agent_id": null, "app_id": {"eq": null}, "user_id": {"ne": null}})",
           R"({"memory": {"contains": "moved to"}, "text": {"icontains": "straßburg"}})",
           R"({"created_at": "2024-03-01"})",
           R"({"created_at": {"gte": "2024-03-01", "lte": "2024-03-01"}})",
           R"({"created_at": {"gt": "2024-02-29", "lt": "2024-03-02"}})",
           R"({"created_at": "2024-03-02T07:30:00+08:00"})",
           R"({"created_at": 1709335800})",
           R"({"updated_at": {"gt": "2024-03-05T07:59:59.999999"}, "expires_at": null})",
           R"({"date": "2023-05-08"})",
           R"({"event_date": {"in": ["2023-05-07", "2023-05-08T17:00:00Z"]}})",
           R"({"date": {"lte": "2023-05-08T00:30:00+02:00"}, "turn": null})",  // 7 May there: before
           R"({"topic": "Travel", "metadata.topic": {"icontains": "TRAV"}, "metadata": {"score": 3}})",
           R"({"score": {"gt": 2.5, "lte": 3}, "ratio": {"lt": 1}, "done": true, "none": null})",
           R"({"tags": {"contains": "a"}})",
           R"({"tags": {"contains": 7}})",
           R"({"tags": {"icontains": "b"}})",
           R"({"tags": {"in": ["x", "B"]}})",
           R"({"tags": {"eq": ["a", "B", 7]}})",
           R"({"tags": "*", "place": "*"})",
           R"({"seen": {"gte": "2024-03-01T08:00:00Z", "lte": "2024-03-01"}})",
           R"({"place.city": "Strassburg", "metadata.place.a.b": 1, "metadata": {"x.y": {"eq": "dotted"}}})",
           R"({"version": {"lt": "1.9"}})",  // text, not numbers
           R"({"OR": [{"user_id": "ben"}, {"score": {"gte": 3}}]})",
           R"({"AND": [{"user_id": "anna"}, {"NOT": [{"topic": "Food"}, {"score": 4}]}]})",
           R"({"NOT": {"user_id": "ben"}})",
           R"({"id": {"in": ["f1"]}, "turn": {"nin": ["t"]}})",
       })
    EXPECT_EQ(Matches(json), std::string(json).find("00:30:00+02:00") == std::string::npos) << json;
}

TEST(FilterTest, WhatDoesNotHold) {
  for (const char* json : {
           R"({"user_id": "Anna"})",
           R"({"user_id": "anna", "run_id": "r8"})",
           R"({"agent_id": "*"})",
           R"({"agent_id": {"in": ["bot"]}})",
           R"({"agent_id": {"contains": ""}})",
           R"({"user_id": {"nin": ["anna"]}})",
           R"({"user_id": {"eq": "*"}})",
           R"({"memory": {"contains": "strassburg"}})",
           R"({"created_at": {"gt": "2024-03-01"}})",
           R"({"created_at": {"lt": "2024-03-01"}})",
           R"({"expires_at": {"gt": "2024-03-01"}})",
           R"({"date": {"gt": "2023-05-08"}})",
           R"({"score": "3"})",
           R"({"score": {"gt": "2"}})",
           R"({"topic": {"gt": 1}})",
           R"({"done": 1})",
           R"({"none": "*"})",
           R"({"none": {"ne": null}})",
           R"({"missing": {"lt": 5}})",
           R"({"tags": "a"})",
           R"({"tags": {"nin": ["a"]}})",
           R"({"topic": {"gte": "2024-01-01"}})",  // no time
           R"({"place.town": "*"})",
           R"({"topic.x": "*"})",
           R"({"OR": [{"user_id": "ben"}, {"score": 4}]})",
           R"({"NOT": [{"user_id": "ben"}, {"score": 3}]})",
           R"({"user_id": {"in": []}})",
       })
    EXPECT_FALSE(Matches(json)) << json;
}

TEST(FilterTest, FactsWithoutUsableMetadata) {
  for (const char* metadata : {"", "[1]", "{broken", "7", R"({"topic": 1e999})"}) {
    FilterFact fact = Anna();
    fact.metadata = metadata;
    EXPECT_FALSE(Matches(R"({"topic": "*"})", fact)) << metadata;
    EXPECT_TRUE(Matches(R"({"topic": null, "user_id": "anna"})", fact)) << metadata;
  }
}

TEST(FilterTest, NumbersAsIds) {
  FilterFact fact = Anna();
  fact.user_id = "123";
  EXPECT_TRUE(Matches(R"({"user_id": 123})", fact));
  EXPECT_TRUE(Matches(R"({"user_id": {"in": [7, 123]}})", fact));
}

TEST(FilterTest, MistakesAreNamedWithTheirPath) {
  struct Case {
    const char *json, *path;
    ErrorCode code;
  };
  const Case cases[] = {
      {"[]", "$: ", ErrorCode::kInvalidArgument},
      {"{", "$: ", ErrorCode::kInvalidJson},
      {R"({"score": 1e999})", "$: ", ErrorCode::kInvalidJson},
      {R"({"AND": []})", "$.AND: ", ErrorCode::kInvalidArgument},
      {R"({"OR": [{"a": 1}, 5]})", "$.OR[1]: ", ErrorCode::kInvalidArgument},
      {R"({"AND": {}})", "$.AND: is an empty filter", ErrorCode::kInvalidArgument},
      {R"({"OR": {}})", "$.OR: ", ErrorCode::kInvalidArgument},
      {R"({"AND": [{"a": 1}, {}]})", "$.AND[1]: ", ErrorCode::kInvalidArgument},
      {R"({"NOT": [{}]})", "$.NOT[0]: ", ErrorCode::kInvalidArgument},
      {R"({"a": 1, "a": 2})", "$: the key \"a\" is there twice", ErrorCode::kInvalidJson},
      {R"({"NOT": "x"})", "$.NOT: ", ErrorCode::kInvalidArgument},
      {R"({"AND": [{"OR": [{"a": {"like": "x"}}]}]})", "$.AND[0].OR[0].a.like: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": {}})", "$.user_id: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": ["a"]})", "$.user_id: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": true})", "$.user_id: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": {"gt": "a"}})", "$.user_id.gt: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": {"in": "a"}})", "$.user_id.in: ", ErrorCode::kInvalidArgument},
      {R"({"user_id": {"in": ["a", {}]}})", "$.user_id.in[1]: ", ErrorCode::kInvalidArgument},
      {R"({"created_at": {"gte": "soon"}})", "$.created_at.gte: ", ErrorCode::kInvalidDate},
      {R"({"created_at": {"gte": null}})", "$.created_at.gte: ", ErrorCode::kInvalidArgument},
      {R"({"created_at": {"contains": "2024"}})", "$.created_at.contains: ", ErrorCode::kInvalidArgument},
      {R"({"created_at": 1e300})", "$.created_at: ", ErrorCode::kInvalidArgument},
      {R"({"date": "2023-02-29"})", "$.date: ", ErrorCode::kInvalidDate},
      {R"({"score": {"gt": [1]}})", "$.score.gt: ", ErrorCode::kInvalidArgument},
      {R"({"tags": {"contains": ["a"]}})", "$.tags.contains: ", ErrorCode::kInvalidArgument},
      {R"({"tags": {"icontains": 7}})", "$.tags.icontains: ", ErrorCode::kInvalidArgument},
      {R"({"metadata": {}})", "$.metadata: ", ErrorCode::kInvalidArgument},
      {R"({"metadata": "x"})", "$.metadata: ", ErrorCode::kInvalidArgument},
      {R"({"metadata": {"a": {"near": 1}}})", "$.metadata.a.near: ", ErrorCode::kInvalidArgument},
      {R"({"metadata.": 1})", "$.metadata.: ", ErrorCode::kInvalidArgument},
      {R"({"$or": [{"a": 1}]})", "$.$or: ", ErrorCode::kInvalidArgument},
      {R"({"and": [{"a": 1}]})", "$.and: ", ErrorCode::kInvalidArgument},
      {R"({"": 1})", "$.: ", ErrorCode::kInvalidArgument},
  };
  for (const Case& c : cases) {
    const auto filter = Filter::Parse(c.json);
    ASSERT_FALSE(filter) << c.json;
    EXPECT_EQ(filter.error().code, c.code) << c.json;
    EXPECT_EQ(filter.error().message.rfind(std::string("filter: ") + c.path, 0), 0u) << filter.error().message;
  }
}

std::string Repeat(const std::string& text, size_t count) {
  std::string all;
  for (size_t i = 0; i < count; ++i) all += (i > 0 ? "," : "") + text;
  return all;
}

TEST(FilterTest, Limits) {
  const auto code = [](const std::string& json) {
    const auto filter = Filter::Parse(json);
    return filter ? ErrorCode::kInternal : filter.error().code;
  };
  const auto nested = [](int depth) {
    std::string json = R"({"a": 1})";
    for (int i = 0; i < depth; ++i) json = R"({"NOT": [)" + json + "]}";
    return json;
  };
  EXPECT_EQ(code(nested(limits::kFilterDepth)), ErrorCode::kInternal);
  EXPECT_EQ(code(nested(limits::kFilterDepth + 1)), ErrorCode::kTooLarge);
  EXPECT_EQ(code(R"({"OR": [)" + Repeat(R"({"a":1})", limits::kFilterConditions) + "]}"), ErrorCode::kInternal);
  EXPECT_EQ(code(R"({"OR": [)" + Repeat(R"({"a":1})", limits::kFilterConditions + 1) + "]}"), ErrorCode::kTooLarge);
  EXPECT_EQ(code(R"({"a": {"in": [)" + Repeat("1", limits::kFilterValues) + "]}}"), ErrorCode::kInternal);
  EXPECT_EQ(code(R"({"a": {"in": [)" + Repeat("1", limits::kFilterValues + 1) + "]}}"), ErrorCode::kTooLarge);
  EXPECT_EQ(code(R"({"a": {"eq": )" + std::string(30'000, '[') + std::string(30'000, ']') + "}}"),
            ErrorCode::kTooLarge);
  EXPECT_EQ(code(R"({"a": ")" + std::string(limits::kFilterBytes, 'x') + "\"}"), ErrorCode::kTooLarge);
  const auto long_key = Filter::Parse("{\"" + std::string(1000, 'k') + "\": {\"bad\": 1}}");
  ASSERT_FALSE(long_key);
  EXPECT_LT(long_key.error().message.size(), 300u);
}

}  // namespace
}  // namespace inferscale
