#include "app/ask_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "app/answer_json.h"
#include "app/compare.h"
#include "app/console.h"
#include "app/engine_flags.h"
#include "app/workspace.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

struct AskFlags {
  EngineFlags engine;
  std::string facts_path, turns_path, question, mode = "kv", window = "anchored:20";
  int top_k = limits::kTopKDefault;
  std::optional<int> tail;
  int repeat = 1;
  uint32_t max_tokens = limits::kMaxTokensDefault;
  bool json = false, floor = false, quiet = false;
};

// Where each mode's sides come from; the first is the one whose answer is shown.
std::vector<AnswerMode> SidesOf(const AskFlags& flags) {
  if (flags.mode == "kv") return {AnswerMode::kKv};
  if (flags.mode == "text") return {AnswerMode::kText};
  if (flags.floor) return {AnswerMode::kKv, AnswerMode::kText, AnswerMode::kFloor};
  return {AnswerMode::kKv, AnswerMode::kText};
}

Result<WorkspaceOptions> ReadInput(const AskFlags& flags) {
  WorkspaceOptions options;
  options.engine = flags.engine;
  if (flags.question.empty()) return Fail(ErrorCode::kInvalidArgument, "--question is empty: ask something");
  if (!IsValidUtf8(flags.question)) return Fail(ErrorCode::kInvalidUtf8, "--question is not valid UTF-8");
  if (flags.question.size() > limits::kQuestionBytes)
    return Fail(ErrorCode::kTooLarge, fmt::format("--question is longer than {} bytes", limits::kQuestionBytes));
  TRY_ASSIGN(options.window, ParseWindowSpec(flags.window));
  TRY_ASSIGN(FactFile facts, ReadFactFile(flags.facts_path));
  for (const std::string& note : facts.notes) PrintWarning(note);
  options.facts = std::move(facts.facts);
  if (!flags.turns_path.empty()) {
    TRY_ASSIGN(options.turns, ReadTurnFile(flags.turns_path));
  }
  std::error_code ec;
  options.facts_source = std::filesystem::weakly_canonical(flags.facts_path, ec).string();
  options.text_only = flags.mode == "text";
  return options;
}

void PrintSide(const Side& side) {
  const Answer& a = side.answer;
  PrintOut(fmt::format("{:<6} first token {:>9.1f} ms   prompt {:>5} tokens, {:>5} injected, {:>5} computed   {}\n",
                       ModeName(side.mode), a.ttft_ms, a.prompt_tokens, a.injected_tokens, a.computed_tokens, a.text));
}

Status RunAsk(const AskFlags& flags) {
  TRY_ASSIGN(WorkspaceOptions input, ReadInput(flags));
  TRY_ASSIGN(const std::unique_ptr<Workspace> workspace, Workspace::Open(std::move(input), flags.quiet));
  CompareOptions options;
  options.sides = SidesOf(flags);
  options.repeat = flags.repeat;
  options.answer.top_k = static_cast<size_t>(flags.top_k);
  options.answer.tail = static_cast<size_t>(flags.tail.value_or(std::min(flags.top_k, limits::kTailFactsDefault)));
  options.answer.max_tokens = flags.max_tokens;
  TRY_ASSIGN(const Comparison comparison, RunComparison(workspace->context(), flags.question, options));
  const Answer& answer = comparison.sides[0].answer;
  for (const size_t rank : answer.dropped)
    PrintWarning(fmt::format("fact {} was left out: the context of {} tokens is full", answer.ranked[rank].id,
                             workspace->engine().context_tokens));
  if (flags.json) {
    const auto json = flags.mode == "compare" ? ComparisonToJson(workspace->engine(), flags.question, comparison)
                                              : AnswerToJson(workspace->engine(), flags.question, comparison.sides[0]);
    PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else if (flags.mode == "compare") {
    for (const Side& side : comparison.sides) PrintSide(side);
    PrintOut(
        fmt::format("text / kv first-token ratio {:.1f}\n", comparison.TtftRatio(AnswerMode::kText, AnswerMode::kKv)));
    if (flags.floor)
      PrintOut(fmt::format("kv / floor first-token ratio {:.3f}\n",
                           comparison.TtftRatio(AnswerMode::kKv, AnswerMode::kFloor)));
  } else {
    PrintOut(answer.text + "\n");
    if (!flags.quiet)
      fmt::print(stderr, "[first token {:.1f} ms; {} facts, {} of {} prompt tokens injected]\n", answer.ttft_ms,
                 answer.used.size(), answer.injected_tokens, answer.prompt_tokens);
  }
  return {};
}

constexpr const char* kAskFooter = R"(Facts file, one JSON object a line:
  {"text": "Nora adopted a grey cat", "date": "2023-05-08", "id": "f1", "turn": "t7"}
  Only "text" is required. Facts are taken in order of their date.

Examples:
  inferscale ask --facts facts.jsonl --question "What pet does Nora have?"
  inferscale ask --facts facts.jsonl --question "…" --mode compare --repeat 5 --json

The first call encodes the facts and keeps their KV in --cache-dir; later calls reuse it.
JSON: question, model, mode, answer, facts_used, prompt_tokens, injected_tokens, computed_tokens, retrieve_ms (embedding
the question and searching), load_ms (records from the cache), compose_ms (rotation), inject_ms (into the engine's
cache), prefill_ms (computing the rest of the prompt), ttft_ms (question's text to first token, all of these included),
total_ms, finish, facts, facts_dropped. With --repeat, times are medians. With --mode compare:
{"kv": {…}, "text": {…}, "ttft_ratio": text / kv}, with --floor also "floor" and "floor_ratio": kv / floor.)";

}  // namespace

void AddAskCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* ask = app.add_subcommand("ask", "Answer a question from a file of facts");
  ask->add_option("--facts", flags->facts_path, "Facts, JSON Lines")->required()->type_name("F.jsonl");
  ask->add_option("--question", flags->question, "What to ask")->required()->type_name("TEXT");
  ask->add_option("--top-k", flags->top_k, "Facts put into the prompt")
      ->check(CLI::Range(1, limits::kTopKMax))
      ->capture_default_str();
  ask->add_option("--tail", flags->tail, "Of these, how many of the best are computed instead of injected (default 5)")
      ->check(CLI::Range(0, limits::kTopKMax));
  ask->add_option("--turns", flags->turns_path, "Source conversation, JSON Lines: {id, speaker, text, date}")
      ->type_name("T.jsonl");
  ask->add_option("--encode-window", flags->window,
                  "What a fact sees when encoded: anchored:C | facts:N | near:A+B | turns:W | none")
      ->type_name("W")
      ->capture_default_str();
  ask->add_option("--mode", flags->mode, "kv: inject; text: compute everything; compare: both")
      ->check(CLI::IsMember({"kv", "text", "compare"}))
      ->capture_default_str();
  ask->add_option("--repeat", flags->repeat, "Rounds; times become medians, after a warm-up round")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  ask->add_option("--max-tokens", flags->max_tokens, "Longest answer")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  ask->add_flag(
      "--floor", flags->floor,
      "With compare: also measure the engine with the injected region already in its cache, the fastest possible");
  ask->add_flag("--json", flags->json, "Print one JSON object");
  ask->add_flag("--quiet", flags->quiet, "No progress, no notes");
  AddEngineFlags(*ask, flags->engine);
  ask->footer(kAskFooter);
  ask->callback([flags, status] {
    if (const Status done = RunAsk(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
