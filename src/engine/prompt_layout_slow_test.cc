// Prompt layouts of the real tokenizers, with the models' own templates and ours.
#include "engine/prompt_layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/clock.h"
#include "engine/llama/jinja_template.h"
#include "engine/llama/vocab_test_util.h"
#include "engine/piecewise_facts_test_util.h"

namespace inferscale {
namespace {

class RealLayout : public testing::TestWithParam<TestModel> {
 protected:
  void SetUp() override {
    if (const std::string reason = SkipReason(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
    vocab_ = RealVocab(GetParam());
    ASSERT_NE(vocab_, nullptr);
  }
  const LlamaTokenizer& tokenizer() const { return *vocab_->tokenizer; }
  std::string name() const { return std::string(GetParam().name); }

  std::unique_ptr<JinjaTemplate> Parse(std::string_view source) const {
    auto made = JinjaTemplate::Make(source, tokenizer().bos_spelling(), tokenizer().eos_spelling());
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return made ? std::move(*made) : nullptr;
  }

  const TestVocab* vocab_ = nullptr;
};

// A template whose marks are control tokens of this model.
std::string WithMarksOf(std::string_view model, std::string source) {
  const bool gemma = model == "Gemma3";
  const std::string start = gemma ? "<start_of_turn>" : "<|im_start|>";
  const std::string end = gemma ? "<end_of_turn>" : "<|im_end|>";
  for (const std::string_view mark : {"<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|end_header_id|>",
                                      "<|im_end|>", "<end_of_turn>", "<|eot_id|>"}) {
    const bool opens = mark.find("start") != std::string::npos || mark.find("header") != std::string::npos;
    const std::string& with = opens ? start : end;
    for (size_t at = 0; (at = source.find(mark, at)) != std::string::npos; at += with.size()) {
      source.replace(at, mark.size(), with);
    }
  }
  return source;
}

TEST_P(RealLayout, PiecesEqualTheWholeWithEveryTemplate) {
  for (const std::string_view file : {"chatml.jinja", "llama3.jinja", "gemma.jinja", "gemma3.jinja", "mistral.jinja"}) {
    const auto chat = Parse(WithMarksOf(GetParam().name, TemplateSource(file)));
    const PromptLayout layout = PromptLayout::Make(tokenizer(), chat.get());
    const Status status = layout.Check();
    EXPECT_TRUE(status.has_value()) << file << ": " << status.error().message;
    const bool has_system = file == "chatml.jinja" || file == "llama3.jinja";
    EXPECT_EQ(layout.form(), has_system ? PromptForm::kSystemTurn : PromptForm::kFirstUserTurn) << layout.note();
  }
}

// Marks that are no tokens of the model merge with the text around them: the check must see it.
TEST_P(RealLayout, ForeignMarksFailTheCheck) {
  const auto chat = Parse(TemplateSource(GetParam().name == "Gemma3" ? "chatml.jinja" : "gemma.jinja"));
  const PromptLayout layout = PromptLayout::Make(tokenizer(), chat.get());
  const Status status = layout.Check();
  ASSERT_FALSE(status.has_value());
  EXPECT_EQ(status.error().code, ErrorCode::kMismatch);
  EXPECT_TRUE(layout.AfterFacts("", {}, "Who?").has_value());  // usable all the same
}

TEST_P(RealLayout, PiecesEqualTheWholeWithTheModelsOwnTemplate) {
  const auto chat = vocab_->chat_template.empty() ? nullptr : Parse(vocab_->chat_template);
  const PromptLayout layout = PromptLayout::Make(tokenizer(), chat.get());
  const Status status = layout.Check();
  EXPECT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(layout.form(), chat ? PromptForm::kSystemTurn : PromptForm::kPlain);

  // The floor of the first token's time: what is computed besides the question.
  const std::string question = "What is the name of Maria's cat?";
  const size_t after = layout.AfterFacts("", {}, question)->size();
  const size_t asked = tokenizer().Text(question).size();
  std::printf("  %-12s header %zu tokens, after the facts %zu and the question's %zu\n", name().c_str(),
              layout.header().size(), after - asked, asked);
  EXPECT_LE(after - asked, 12u);
  EXPECT_LE(layout.header().size(), 48u);

  // Tokenising the question, on two shared cores, is far below the millisecond that one computed token costs.
  std::vector<double> times;
  for (int i = 0; i < 51; ++i) {
    const Stopwatch watch;
    ASSERT_TRUE(layout.AfterFacts("", {}, question).has_value());
    times.push_back(watch.Millis());
  }
  std::nth_element(times.begin(), times.begin() + 25, times.end());
  std::printf("  %-12s AfterFacts: %.3f ms (median)\n", name().c_str(), times[25]);
  EXPECT_LT(times[25], 1.0);
}

// How many of 1,000 facts have other ids when they are tokenised alone than in their place among the others.
TEST_P(RealLayout, PiecewiseFactsAgainstJointFacts) {
  const std::vector<std::string> facts = SampleFacts(1000);
  size_t by_lines = 0, by_spaces = 0, tokens = 0;
  for (size_t i = 0; i < facts.size(); ++i) {
    const std::string before = i == 0 ? "Memories:" : facts[i - 1];
    by_lines += BordersDiffer(tokenizer(), before + "\n", facts[i] + "\n");
    by_spaces += BordersDiffer(tokenizer(), before + " ", facts[i] + " ");
    tokens += tokenizer().Text(facts[i] + "\n").size();
  }
  std::printf("  %-12s of 1,000 facts %zu differ (a space between, no line break: %zu); %.1f tokens a fact\n",
              name().c_str(), by_lines, by_spaces, static_cast<double>(tokens) / 1000);
  EXPECT_EQ(by_lines, 0u);
  EXPECT_GE(by_spaces, 500u);  // the comparison can tell
}

INSTANTIATE_TEST_SUITE_P(Models, RealLayout, testing::ValuesIn(kTestModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace inferscale
