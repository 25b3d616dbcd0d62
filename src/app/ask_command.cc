#include "app/ask_command.h"

#include <fmt/format.h>

#include <memory>
#include <optional>

#include "app/answer_json.h"
#include "app/compare.h"
#include "app/console.h"
#include "app/engine_flags.h"
#include "app/input_text.h"
#include "app/memory_session.h"
#include "app/number_flag.h"
#include "app/workspace.h"
#include "base/limits.h"
#include "base/utf8.h"
#include "memory/fact_file.h"

namespace inferscale {

namespace {

struct AskFlags {
  EngineFlags engine;
  MemoryFlags memory;  // used when there is no facts_path
  std::string facts_path, turns_path, question, mode = "kv", window = WindowSpec{}.ToString();
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

Status CheckFlags(const AskFlags& flags, const WindowSpec& window) {
  if (flags.question.find_first_not_of(" \t\r\n\v\f") == std::string::npos)
    return Fail(ErrorCode::kInvalidArgument, "--question is empty: ask something");
  if (!IsValidUtf8(flags.question)) return Fail(ErrorCode::kInvalidUtf8, "--question is not valid UTF-8");
  if (flags.question.size() > limits::kQuestionBytes)
    return Fail(ErrorCode::kTooLarge, fmt::format("--question is longer than {} bytes", limits::kQuestionBytes));
  if (flags.floor && flags.mode != "compare")
    return Fail(ErrorCode::kInvalidArgument, "--floor is measured beside the other two: add --mode compare");
  const bool needs_turns = window.kind == WindowKind::kTurns, has_turns = !flags.turns_path.empty();
  if (needs_turns && !has_turns)
    return Fail(ErrorCode::kInvalidArgument,
                "--encode-window " + window.ToString() + " needs the conversation: give it with --turns T.jsonl");
  if (has_turns && !needs_turns)
    return Fail(ErrorCode::kInvalidArgument, "--turns is used by --encode-window turns:W only, and it is " +
                                                 window.ToString() + ": change it, or leave --turns out");
  return {};
}

Result<WorkspaceOptions> ReadFiles(const AskFlags& flags) {
  WorkspaceOptions options;
  options.engine = flags.engine;
  TRY_ASSIGN(options.window, ParseWindowSpec(flags.window));
  const std::string facts_name = InputName(flags.facts_path), turns_name = InputName(flags.turns_path);
  if (flags.facts_path == "-" && flags.turns_path == "-")
    return Fail(ErrorCode::kInvalidArgument, "facts and turns cannot both come from standard input: name a file");
  TRY_ASSIGN(const std::string content, ReadInput(flags.facts_path));
  TRY_ASSIGN(FactFile facts, ParseFactFile(content, facts_name));
  if (!flags.turns_path.empty()) {
    TRY_ASSIGN(const std::string turns_content, ReadInput(flags.turns_path));
    TRY_ASSIGN(options.turns, ParseTurnFile(turns_content, turns_name));
    TRY(CheckTurns(facts, facts_name, options.turns, turns_name));
  }
  if (!flags.quiet)
    for (const std::string& note : facts.notes) PrintNote(note);
  options.facts = std::move(facts.facts);
  std::error_code ec;
  options.facts_source =
      flags.facts_path == "-" ? "-" : std::filesystem::weakly_canonical(flags.facts_path, ec).string();
  options.text_only = flags.mode == "text";
  options.questions = {flags.question};
  options.max_tokens = flags.max_tokens;
  return options;
}

void PrintSide(const Side& side) {
  const Answer& a = side.answer;
  PrintOut(fmt::format("{:<6} first token {:>9.1f} ms   prompt {:>5} tokens, {:>5} injected, {:>5} computed   {}\n",
                       ModeName(side.mode), a.ttft_ms, a.prompt_tokens, a.injected_tokens, a.computed_tokens, a.text));
}

void PrintComparison(const Comparison& comparison) {
  for (const Side& side : comparison.sides) PrintSide(side);
  if (!comparison.text_mode_reason.empty()) return PrintOut("no ratio: nothing can be injected\n");
  PrintOut(
      fmt::format("text / kv first-token ratio {:.1f}\n", comparison.TtftRatio(AnswerMode::kText, AnswerMode::kKv)));
  if (comparison.Find(AnswerMode::kFloor) != nullptr)
    PrintOut(fmt::format("kv / floor first-token ratio {:.3f}\n",
                         comparison.TtftRatio(AnswerMode::kKv, AnswerMode::kFloor)));
}

Status Ask(const AskFlags& flags, const AnswerContext& context, const std::string& text_mode_reason) {
  const EngineInfo& engine = context.engine.info();
  CompareOptions options;
  options.sides = SidesOf(flags);
  options.repeat = flags.repeat;
  options.text_mode_reason = text_mode_reason;
  options.answer.top_k = static_cast<size_t>(flags.top_k);
  options.answer.tail = static_cast<size_t>(flags.tail.value_or(std::min(flags.top_k, limits::kTailFactsDefault)));
  options.answer.max_tokens = flags.max_tokens;
  TRY_ASSIGN(const Comparison comparison, RunComparison(context, flags.question, options));
  const Answer& answer = comparison.sides[0].answer;
  for (const size_t rank : answer.dropped)
    PrintWarning(fmt::format("fact {} was left out: the context of {} tokens is full", answer.ranked[rank].id,
                             engine.context_tokens));
  if (flags.json) {
    const auto to_json = flags.mode == "compare" ? ComparisonToJson : AnswerToJson;
    PrintJson(to_json(engine, flags.question, comparison));
  } else if (flags.mode == "compare") {
    PrintComparison(comparison);
  } else {
    PrintOut(answer.text + "\n");
    if (!flags.quiet)
      fmt::print(stderr, "[first token {:.1f} ms; {} facts, {} of {} prompt tokens injected]\n", answer.ttft_ms,
                 answer.used.size(), answer.injected_tokens, answer.prompt_tokens);
  }
  return {};
}

Status RunAsk(const AskFlags& flags) {
  TRY_ASSIGN(const WindowSpec window, ParseWindowSpec(flags.window));
  TRY(CheckFlags(flags, window));
  if (!flags.facts_path.empty()) {
    TRY_ASSIGN(WorkspaceOptions input, ReadFiles(flags));
    TRY_ASSIGN(const std::unique_ptr<Workspace> workspace, Workspace::Open(std::move(input), flags.quiet));
    return Ask(flags, workspace->context(), workspace->text_mode_reason());
  }
  MemorySessionOptions options;
  options.memory = flags.memory;
  options.memory.quiet = flags.quiet;
  options.engine = flags.engine;
  options.command = "ask";
  options.text_only = flags.mode == "text";
  TRY_ASSIGN(const std::unique_ptr<MemorySession> session, MemorySession::Open(std::move(options)));
  TRY(FindNameSpace(session->memory(), flags.memory));  // says so where nothing is known
  return Ask(flags, session->context(), session->text_mode_reason());
}

constexpr const char* kAskFooter =
    R"(Facts come from a file (--facts) or from a memory (--data-dir, --namespace): `inferscale import` and `inferscale
remember` fill it, `inferscale encode` computes its KV; what is not encoded there is text.

Facts file, one JSON object a line:
  {"text": "Nora adopted a grey cat", "date": "2023-05-08", "id": "f1", "turn": "t7"}
  Only "text" is required. Facts are taken in order of their date. "turn" is the id of a line of --turns.

--encode-window says what a fact sees when its KV is computed; each number is 1 to 200:
  anchored:C  runs of C facts in order, each run behind the C facts before it; computed in one pass
  facts:N     the N facts before it
  near:A+B    the A earlier facts that are most like it, then the B before it (one of them may be 0)
  turns:W     the W turns before its own turn, from --turns; one {id, speaker, text, date} a line
  none        nothing

Examples:
  inferscale ask --facts facts.jsonl --question "What pet does Nora have?"
  inferscale ask --facts facts.jsonl --question "…" --mode compare --repeat 5 --json
  inferscale ask --namespace user:alex --question "Which pets are there?"

With --facts, the first call encodes the facts and keeps their KV in --cache-dir; later calls reuse it. With another
--model, --threads, --context or --cache-dir the first call also tests once, for a few seconds, that injection is right.

JSON: question, model, mode, answer, facts_used, prompt_tokens, injected_tokens, computed_tokens, retrieve_ms (embedding
the question and searching), load_ms (records from the cache, if they are not in memory since they were checked),
compose_ms (rotation), inject_ms (into the engine's cache), prefill_ms (computing the rest of the prompt; the header,
which counts as injected, is computed by a process's first answer), ttft_ms
(question's text to first token, all of these included), total_ms, finish, facts, facts_dropped. With --repeat, times
are medians. With --mode compare: {"kv": {…}, "text": {…}, "ttft_ratio": text / kv}, with --floor also "floor" and
"floor_ratio": kv / floor. Where nothing can be injected, mode is "text", text_mode_reason says why, and compare has no
"kv" and a ttft_ratio of null.)";

}  // namespace

void AddAskCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<AskFlags>();
  CLI::App* ask = app.add_subcommand("ask", "Answer a question from a file of facts, or from a memory");
  CLI::Option* facts =
      ask->add_option("--facts", flags->facts_path, "Facts, JSON Lines; -: standard input")->type_name("F.jsonl");
  AddMemoryPlace(*ask, flags->memory, facts);
  ask->add_option("--question", flags->question, "What to ask")->required()->type_name("TEXT");
  AddNumber(*ask, "--top-k", flags->top_k, 1, limits::kTopKMax, "Facts put into the prompt")->capture_default_str();
  AddNumber(*ask, "--tail", flags->tail, 0, limits::kTopKMax,
            "Of these, how many of the best are computed instead of injected")
      ->default_str(std::to_string(limits::kTailFactsDefault));
  ask->add_option("--turns", flags->turns_path, "Source conversation, for --encode-window turns:W")
      ->needs(facts)
      ->type_name("T.jsonl");
  ask->add_option("--encode-window", flags->window, "With --facts: what a fact sees when its KV is computed, see below")
      ->needs(facts)
      ->type_name("anchored:C|facts:N|near:A+B|turns:W|none")
      ->capture_default_str();
  ask->add_option("--mode", flags->mode, "kv: inject; text: compute everything; compare: both")
      ->check(CLI::IsMember({"kv", "text", "compare"}).description(""))
      ->type_name("kv|text|compare")
      ->capture_default_str();
  AddNumber(*ask, "--repeat", flags->repeat, 1, 1000,
            "Rounds; with more than one, times become medians, after a warm-up round that does not count")
      ->capture_default_str();
  AddNumber(*ask, "--max-tokens", flags->max_tokens, 1, limits::kContextTokensMax, "Longest answer")
      ->capture_default_str();
  ask->add_flag(
      "--floor", flags->floor,
      "With compare: also measure the engine with the injected region already in its cache, the fastest possible");
  ask->add_flag("--json", flags->json, "Print one JSON object");
  ask->add_flag("--quiet", flags->quiet, "No progress, no notes; warnings remain");
  AddEngineFlags(*ask, flags->engine, true);
  ask->footer(kAskFooter);
  ask->callback([flags, status] {
    if (const Status done = RunAsk(*flags); !done) {
      PrintError(done.error());
      *status = ExitStatus(done.error().code);
    }
  });
}

}  // namespace inferscale
