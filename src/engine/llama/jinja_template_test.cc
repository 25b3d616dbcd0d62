#include "engine/llama/jinja_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

#include "base/limits.h"
#include "engine/llama/vocab_test_util.h"

namespace inferscale {
namespace {

using testing::HasSubstr;

const std::vector<ChatMessage> kTalk = {{"system", "Be brief."}, {"user", " Who is Jonas? "}};

std::string Render(std::string_view source, std::vector<ChatMessage> messages = kTalk) {
  auto made = JinjaTemplate::Make(source, "<s>", "</s>");
  if (!made) return "parse: " + made.error().message;
  auto rendered = (*made)->Render(messages);
  if (rendered) return *rendered;
  EXPECT_EQ(rendered.error().code, ErrorCode::kModelUnsupported);
  return "render: " + rendered.error().message;
}

TEST(JinjaTemplate, RendersTheCommonKinds) {
  EXPECT_EQ(Render(TemplateSource("chatml.jinja")),
            "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Who is Jonas? <|im_end|>\n"
            "<|im_start|>assistant\n");
  EXPECT_EQ(Render(TemplateSource("llama3.jinja")),
            "<s><|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\n"
            "Today Date: 26 Jul 2024\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\n"
            "Who is Jonas?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n");
  EXPECT_EQ(Render(TemplateSource("gemma3.jinja")),
            "<s><start_of_turn>user\nBe brief.\n\nWho is Jonas?<end_of_turn>\n<start_of_turn>model\n");
  EXPECT_EQ(Render(TemplateSource("mistral.jinja")), "<s>[INST] Be brief.\n\nWho is Jonas? [/INST]");
  EXPECT_EQ(Render(TemplateSource("gemma.jinja"), {{"user", "Hi"}, {"assistant", "Yes?"}, {"user", "Bye"}}),
            "<s><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nYes?<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
}

TEST(JinjaTemplate, RaisedErrorsAreValues) {
  EXPECT_THAT(Render(TemplateSource("gemma.jinja")), HasSubstr("there is no system role"));
  EXPECT_THAT(Render("{{ messages[7].content.missing() }}"), HasSubstr("render: "));
  EXPECT_THAT(Render("{{ 1 / none }}"), HasSubstr("render: "));
}

TEST(JinjaTemplate, RefusesWhatItCannotParse) {
  for (const char* source : {"{% if %}", "{{ 'open", "{% for x in %}", "{{ (1 }}", "{% nonsense %}"}) {
    EXPECT_THAT(Render(source), HasSubstr("parse: ")) << source;
  }
}

TEST(JinjaTemplate, TheDateNeverVaries) {
  EXPECT_EQ(Render("{{ strftime_now('%Y-%m-%d %H:%M:%S %A %j') }}"), "2024-07-26 00:00:00 Friday 208");
  EXPECT_EQ(Render("{% if strftime_now is defined %}yes{% endif %}"), "yes");
}

TEST(JinjaTemplate, SeesNoThinkingAndAGenerationPrompt) {
  EXPECT_EQ(Render("{{ enable_thinking }} {{ add_generation_prompt }} {{ eos_token }} {{ tools is defined }}"),
            "False True </s> False");
}

std::string Repeat(const std::string& unit, int times) {
  std::string text;
  for (int i = 0; i < times; ++i) text += unit;
  return text;
}

TEST(JinjaTemplate, DeepNestingIsRefusedAndNotRecursedInto) {
  constexpr int kDeep = 10'000;
  for (const std::string& source :
       {"{{ " + Repeat("(", kDeep) + "1" + Repeat(")", kDeep) + " }}", "{{ " + Repeat("not ", kDeep) + "1 }}",
        "{{ " + Repeat("- ", kDeep) + "1 }}", "{{ 1" + Repeat(" + 1", kDeep) + " }}",
        "{{ 'a'" + Repeat("|trim", kDeep) + " }}", Repeat("{% if 1 %}", kDeep) + Repeat("{% endif %}", kDeep),
        "{% if 0 %}" + Repeat("{% elif 0 %}", kDeep) + "{% endif %}"}) {
    EXPECT_THAT(Render(source), HasSubstr("nested too deeply")) << source.substr(0, 20);
  }
  // The deepest that is accepted runs, and what is wide is not deep.
  EXPECT_EQ(Render("{{ " + Repeat("(", 120) + "1" + Repeat(")", 120) + " }}"), "1");
  EXPECT_EQ(Render("{{ 1" + Repeat(" + 1", 2000) + " }}"), "2001");
  EXPECT_EQ(Render(Repeat("{% if 0 %}a{% elif 1 %}{% endif %}{{ (-1) }}", 500)).size(), 1000u);
}

TEST(JinjaTemplate, SizesAreLimited) {
  EXPECT_THAT(Render(std::string(limits::kTemplateBytes + 1, 'x')), HasSubstr("256 KiB"));
  EXPECT_THAT(Render("{% for i in range(1000000000) %}x{% endfor %}"), HasSubstr("range()"));
  EXPECT_EQ(Render("{% for i in range(2, 8, 3) %}{{ i }}{% endfor %}"), "25");
  auto echo = JinjaTemplate::Make("{{ messages[0].content }}{{ messages[0].content }}", "", "");
  ASSERT_TRUE(echo.has_value());
  const std::vector<ChatMessage> many(limits::kMessages + 1);
  EXPECT_EQ((*echo)->Render(many).error().code, ErrorCode::kTooLarge);
  const std::vector<ChatMessage> large = {{"user", std::string(limits::kRenderedBytes - 16, 'x')}};
  EXPECT_EQ((*echo)->Render(large).error().code, ErrorCode::kTooLarge);
}

TEST(JinjaTemplate, OneTemplateServesManyThreads) {
  auto made = JinjaTemplate::Make(TemplateSource("llama3.jinja"), "<s>", "</s>");
  ASSERT_TRUE(made.has_value());
  const std::string expected = *(*made)->Render(kTalk);
  std::vector<std::thread> threads;
  std::vector<int> same(4, 0);
  for (int& count : same) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) count += (*made)->Render(kTalk).value_or("") == expected;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, std::vector<int>(4, 50));
}

}  // namespace
}  // namespace inferscale
