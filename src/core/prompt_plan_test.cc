#include "core/prompt_plan.h"

#include <gtest/gtest.h>

#include <functional>

#include "base/limits.h"

namespace inferscale {
namespace {

PromptPlan SamplePlan() {
  PromptPlan plan;
  plan.model_key = HashBytes("model");
  plan.spans = {{SpanKind::kPrefix, HashBytes("header"), 1, 3}, {SpanKind::kRecord, HashBytes("f1"), 7, 2}};
  plan.prompt_tokens = {1, 2, 3, 4, 5, 6};
  plan.salt = "inferscale:v1:\"ä\n";
  return plan;
}

TEST(PromptPlanTest, CountsTokens) {
  const PromptPlan plan = SamplePlan();
  EXPECT_EQ(plan.InjectedTokens(), 5u);
  EXPECT_EQ(plan.ComputedTokens(), 1u);
  EXPECT_EQ(plan.PrefixTokens(), 3u);
  EXPECT_EQ(PromptPlan{}.PrefixTokens(), 0u);
}

TEST(PromptPlanTest, JsonRoundTrip) {
  for (PromptPlan plan : {SamplePlan(), PromptPlan{.prompt_tokens = {0}}}) {
    const auto parsed = PlanFromJson(PlanToJson(plan));
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    EXPECT_EQ(*parsed, plan);
  }
}

TEST(PromptPlanTest, JsonIsTheDocumentedOne) {
  PromptPlan plan;
  plan.spans = {{SpanKind::kRecord, {1, 2}, 1, 1}};
  plan.prompt_tokens = {7, 8};
  EXPECT_EQ(
      PlanToJson(plan),
      R"({"version":1,"model_key":"00000000000000000000000000000000","spans":[{"kind":"record","record_id":)"
      R"("00000000000000010000000000000002","content_version":1,"n_tokens":1}],"prompt_tokens":[7,8],"salt":""})");
}

TEST(PromptPlanTest, CheckRefusesEachBrokenInvariant) {
  ASSERT_TRUE(CheckPlan(SamplePlan()));
  const std::vector<std::function<void(PromptPlan&)>> breaks = {
      [](PromptPlan& p) { p.version = 2; },
      [](PromptPlan& p) {
        p.prompt_tokens.clear();
        p.spans.clear();
      },
      [](PromptPlan& p) { p.prompt_tokens.pop_back(); },  // nothing would be computed
      [](PromptPlan& p) { p.prompt_tokens[0] = -1; },
      [](PromptPlan& p) { p.spans[1].n_tokens = 0; },
      [](PromptPlan& p) { p.spans[1].n_tokens = UINT32_MAX - 1; },  // the 32-bit sum would be small again
      [](PromptPlan& p) { p.spans[1].kind = SpanKind::kPrefix; },
      [](PromptPlan& p) { std::swap(p.spans[0], p.spans[1]); },
      [](PromptPlan& p) { p.salt = std::string(10'000, 'x'); },
      [](PromptPlan& p) { p.salt = "\xFF"; },
      [](PromptPlan& p) { p.prompt_tokens.resize(limits::kContextTokensMax + 1); }};
  for (size_t i = 0; i < breaks.size(); ++i) {
    PromptPlan plan = SamplePlan();
    breaks[i](plan);
    const Status checked = CheckPlan(plan);
    ASSERT_FALSE(checked) << i;
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument) << i;
  }
}

TEST(PromptPlanTest, RefusesGarbageJson) {
  const std::string good = PlanToJson(SamplePlan());
  for (const char* text : {"", "null", "[]", "{", "{}", "1e999", "\xFF", R"({"version":1})"})
    EXPECT_FALSE(PlanFromJson(text)) << text;
  const auto replaced = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  for (const auto& [from, to] :
       std::vector<std::pair<std::string, std::string>>{{"\"version\":1", "\"version\":-1"},
                                                        {"\"version\":1", "\"version\":1.5"},
                                                        {"\"version\":1", "\"version\":\"1\""},
                                                        {"\"prefix\"", "\"header\""},
                                                        {"\"prefix\"", "7"},
                                                        {"\"n_tokens\":3", "\"n_tokens\":4294967299"},
                                                        {"\"n_tokens\":3", "\"n_tokens\":null"},
                                                        {"[1,2,3", "[1,2,2147483648"},
                                                        {"[1,2,3", "[1,2,\"3\""},
                                                        {"\"spans\":[", "\"spans\":[0,"},
                                                        {"\"salt\":", "\"sale\":"},
                                                        {HashBytes("f1").Hex(), "zz"},
                                                        {HashBytes("model").Hex(), "00"}})
    EXPECT_FALSE(PlanFromJson(replaced(from, to))) << from << " -> " << to;
  EXPECT_TRUE(PlanFromJson(replaced("\"salt\"", "\"unknown\":{},\"salt\""))) << "unknown keys are ignored";
  EXPECT_FALSE(PlanFromJson(std::string(100'000, '['))) << "deep nesting";
}

TEST(PromptPlanTest, RefusesEveryTruncation) {
  const std::string good = PlanToJson(SamplePlan());
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(PlanFromJson(good.substr(0, n))) << n;
}

}  // namespace
}  // namespace inferscale
