#include "app/demo_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/compare.h"
#include "app/console.h"
#include "app/demo_data.h"
#include "app/engine_flags.h"
#include "app/workspace.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

struct DemoFlags {
  EngineFlags engine;
  int top_k = 50, tail = 5, repeat = 1;
  uint32_t max_tokens = 32;
};

struct DemoQuestion {
  std::string text;
  std::vector<std::string> expect;  // lower-case; one of them in the answer makes it right
};

Result<std::vector<DemoQuestion>> ReadQuestions() {
  std::vector<DemoQuestion> questions;
  try {
    for (const auto& item : nlohmann::json::parse(DemoQuestionsJson()))
      questions.push_back({item.at("question"), item.at("expect").get<std::vector<std::string>>()});
  } catch (const nlohmann::json::exception& e) {
    return Fail(ErrorCode::kInternal, std::string("the built-in questions are damaged: ") + e.what());
  }
  return questions;
}

bool IsRight(const DemoQuestion& question, std::string answer) {
  std::transform(answer.begin(), answer.end(), answer.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::any_of(question.expect.begin(), question.expect.end(),
                     [&](const std::string& e) { return answer.find(e) != std::string::npos; });
}

std::string OneLine(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

Status RunDemo(const DemoFlags& flags) {
  TRY_ASSIGN(FactFile file, ParseFactFile(DemoFactsJsonl(), "the built-in demo"));
  TRY_ASSIGN(const std::vector<DemoQuestion> questions, ReadQuestions());
  WorkspaceOptions options;
  options.engine = flags.engine;
  options.facts = std::move(file.facts);
  options.facts_source = "demo";
  TRY_ASSIGN(const std::unique_ptr<Workspace> workspace, Workspace::Open(std::move(options), false));
  const FactSet& facts = workspace->facts();
  const EncodeStats& encoded = workspace->encode_stats();
  PrintOut(fmt::format("{} facts about two people, {} tokens, model {}.\n", facts.size(), facts.tokens(),
                       workspace->engine().model_name));
  PrintOut(encoded.encoded > 0
               ? fmt::format(
                     "Encoded {} facts in {:.1f} s: {:.2f} computed tokens per fact token. Kept for the next run.\n\n",
                     encoded.encoded, encoded.seconds,
                     static_cast<double>(encoded.computed_tokens) / static_cast<double>(encoded.fact_tokens))
               : fmt::format("All {} facts were encoded by an earlier run.\n\n", encoded.cached));
  std::string table = fmt::format("{:<34} {:>6} {:>7} {:>9} {:>9} {:>11} {:>11} {:>7}\n", "question", "facts", "tokens",
                                  "injected", "computed", "text ms", "injected ms", "ratio");
  int right_text = 0, right_kv = 0;
  for (const DemoQuestion& question : questions) {
    CompareOptions compare;
    compare.sides = {AnswerMode::kText, AnswerMode::kKv};
    compare.repeat = flags.repeat;
    compare.answer.top_k = static_cast<size_t>(flags.top_k);
    compare.answer.tail = static_cast<size_t>(std::min(flags.tail, flags.top_k));
    compare.answer.max_tokens = flags.max_tokens;
    TRY_ASSIGN(const Comparison both, RunComparison(workspace->context(), question.text, compare));
    const Answer &text = both.Find(AnswerMode::kText)->answer, &kv = both.Find(AnswerMode::kKv)->answer;
    right_text += IsRight(question, text.text);
    right_kv += IsRight(question, kv.text);
    PrintOut(fmt::format("{}\n  as text:  {}{}\n  injected: {}{}\n", question.text, OneLine(text.text),
                         IsRight(question, text.text) ? "" : "   [wrong]", OneLine(kv.text),
                         IsRight(question, kv.text) ? "" : "   [wrong]"));
    table += fmt::format("{:<34.34} {:>6} {:>7} {:>9} {:>9} {:>11.1f} {:>11.1f} {:>6.1f}x\n", question.text,
                         kv.used.size(), kv.prompt_tokens, kv.injected_tokens, kv.computed_tokens, text.ttft_ms,
                         kv.ttft_ms, both.TtftRatio(AnswerMode::kText, AnswerMode::kKv));
  }
  PrintOut(fmt::format("\nTime to the first token\n{}\nRight answers: {} of {} as text, {} of {} injected.\n", table,
                       right_text, questions.size(), right_kv, questions.size()));
  return {};
}

}  // namespace

void AddDemoCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* demo =
      app.add_subcommand("demo", "Show it: five questions about a year of two people's lives, as text and injected");
  demo->add_option("--top-k", flags->top_k, "Facts put into the prompt")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  demo->add_option("--tail", flags->tail, "How many of the best are computed instead of injected")
      ->check(CLI::Range(0, 1000))
      ->capture_default_str();
  demo->add_option("--repeat", flags->repeat, "Rounds per question; times become medians")
      ->check(CLI::Range(1, 100))
      ->capture_default_str();
  demo->add_option("--max-tokens", flags->max_tokens, "Longest answer")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  AddEngineFlags(*demo, flags->engine);
  demo->callback([flags, status] {
    if (const Status done = RunDemo(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
