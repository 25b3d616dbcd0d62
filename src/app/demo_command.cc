#include "app/demo_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "app/compare.h"
#include "app/console.h"
#include "app/demo_data.h"
#include "app/engine_flags.h"
#include "app/number_flag.h"
#include "app/workspace.h"
#include "base/limits.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

struct DemoFlags {
  EngineFlags engine;
  int top_k = limits::kTopKDefault, tail = limits::kTailFactsDefault, repeat = 1;
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

struct Score {
  int text = 0, kv = 0;  // right answers
};

// One question's answers, printed; its line of the table is returned.
Result<std::string> ShowQuestion(const AnswerContext& context, const DemoQuestion& question,
                                 const CompareOptions& options, size_t width, Score& score) {
  TRY_ASSIGN(const Comparison both, RunComparison(context, question.text, options));
  const auto show = [&](const char* label, const Answer& answer) {
    const bool right = IsRight(question, answer.text);
    PrintOut(fmt::format("  {:<9} {}{}\n", label, OneLine(answer.text), right ? "" : "   [wrong]"));
    return right;
  };
  PrintOut(question.text + "\n");
  const Answer& text = both.Find(AnswerMode::kText)->answer;
  score.text += show("as text:", text);
  const Side* injected = both.Find(AnswerMode::kKv);
  if (injected == nullptr)
    return fmt::format("{:<{}} {:>6} {:>7} {:>9} {:>9} {:>11.1f} {:>11} {:>8}\n", question.text, width,
                       text.used.size(), text.prompt_tokens, 0, text.computed_tokens, text.ttft_ms, "-", "-");
  const Answer& kv = injected->answer;
  score.kv += show("injected:", kv);
  return fmt::format("{:<{}} {:>6} {:>7} {:>9} {:>9} {:>11.1f} {:>11.1f} {:>7.1f}x\n", question.text, width,
                     kv.used.size(), kv.prompt_tokens, kv.injected_tokens, kv.computed_tokens, text.ttft_ms, kv.ttft_ms,
                     both.TtftRatio(AnswerMode::kText, AnswerMode::kKv));
}

void PrintFacts(const Workspace& workspace) {
  const FactSet& facts = workspace.facts();
  const EncodeStats& encoded = workspace.encode_stats();
  PrintOut(fmt::format("{} facts about two people, {} tokens, model {}.\n", facts.size(), facts.tokens(),
                       workspace.engine().model_name));
  if (!workspace.text_mode_reason().empty())
    PrintOut("Nothing can be injected into this model (see `inferscale doctor`): answers as text only.\n\n");
  else if (encoded.encoded > 0)
    PrintOut(
        fmt::format("Encoded {} facts in {:.1f} s: {:.2f} computed tokens per fact token. Kept for the next run.\n\n",
                    encoded.encoded, encoded.seconds,
                    static_cast<double>(encoded.computed_tokens) / static_cast<double>(encoded.fact_tokens)));
  else
    PrintOut(fmt::format("All {} facts were encoded by an earlier run.\n\n", encoded.cached));
}

Status RunDemo(const DemoFlags& flags) {
  TRY_ASSIGN(FactFile file, ParseFactFile(DemoFactsJsonl(), "the built-in demo"));
  TRY_ASSIGN(const std::vector<DemoQuestion> questions, ReadQuestions());
  WorkspaceOptions options;
  options.engine = flags.engine;
  options.facts = std::move(file.facts);
  options.facts_source = "demo";
  for (const DemoQuestion& question : questions) options.questions.push_back(question.text);
  options.max_tokens = flags.max_tokens;
  TRY_ASSIGN(const std::unique_ptr<Workspace> workspace, Workspace::Open(std::move(options), false));
  PrintFacts(*workspace);
  CompareOptions compare;
  compare.sides = {AnswerMode::kText, AnswerMode::kKv};
  compare.repeat = flags.repeat;
  compare.text_mode_reason = workspace->text_mode_reason();
  compare.answer.top_k = static_cast<size_t>(flags.top_k);
  compare.answer.tail = static_cast<size_t>(std::min(flags.tail, flags.top_k));
  compare.answer.max_tokens = flags.max_tokens;
  size_t width = 0;
  for (const DemoQuestion& question : questions) width = std::max(width, question.text.size());
  std::string table = fmt::format("{:<{}} {:>6} {:>7} {:>9} {:>9} {:>11} {:>11} {:>8}\n", "question", width, "facts",
                                  "tokens", "injected", "computed", "text ms", "injected ms", "ratio");
  Score right;
  for (const DemoQuestion& question : questions) {
    TRY_ASSIGN(const std::string line, ShowQuestion(workspace->context(), question, compare, width, right));
    table += line;
  }
  PrintOut(fmt::format("\nTime to the first token\n{}\nRight answers: {} of {} as text", table, right.text,
                       questions.size()));
  if (compare.text_mode_reason.empty()) PrintOut(fmt::format(", {} of {} injected", right.kv, questions.size()));
  PrintOut(".\n");
  return {};
}

constexpr const char* kDemoFooter =
    R"(The first run computes the KV of the built-in facts and keeps it in --cache-dir; later runs reuse it. Each
question is answered twice from the same prompt: "as text" computes all of it, "injected" computes the question
and the best --tail facts and injects the rest. [wrong] marks an answer without the expected word.

Examples:
  inferscale demo
  inferscale demo --repeat 5                    medians
  inferscale demo --model better-model.gguf     the default one is a toy)";

}  // namespace

void AddDemoCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<DemoFlags>();
  CLI::App* demo =
      app.add_subcommand("demo", "Show it: five questions about a year of two people's lives, as text and injected");
  AddNumber(*demo, "--top-k", flags->top_k, 1, limits::kTopKMax, "Facts put into the prompt")->capture_default_str();
  AddNumber(*demo, "--tail", flags->tail, 0, limits::kTopKMax,
            "Of these, how many of the best are computed instead of injected")
      ->capture_default_str();
  AddNumber(*demo, "--repeat", flags->repeat, 1, 1000,
            "Rounds per question; with more than one, times become medians, after a warm-up round that does not count")
      ->capture_default_str();
  AddNumber(*demo, "--max-tokens", flags->max_tokens, 1, limits::kContextTokensMax, "Longest answer")
      ->capture_default_str();
  AddEngineFlags(*demo, flags->engine);
  demo->footer(kDemoFooter);
  demo->callback([flags, status] {
    if (const Status done = RunDemo(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
