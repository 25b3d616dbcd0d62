#include "app/workspace.h"

#include <fmt/format.h>

#include <algorithm>

#include "app/console.h"
#include "app/models.h"
#include "base/file.h"
#include "base/limits.h"
#include "memory/fact_file.h"
#include "memory/prompt_builder.h"
#include "memory/window_planner.h"

namespace inferscale {

namespace {

// The namespace of facts that come from a file.
constexpr std::string_view kLocalNamespace = "local";

ProgressFn BarOf(std::optional<ProgressBar>& bar, bool quiet, const char* label, const char* unit) {
  if (quiet) return nullptr;
  return [&bar, label, unit](size_t done, size_t total) {
    if (!bar) bar.emplace(label, unit);
    bar->Update(done, total);
  };
}

void PrintMessages(const std::vector<std::string>& messages) {
  for (const std::string& message : messages) PrintWarning(message);
}

// The runs of one source of facts under one model and window.
std::filesystem::path RunBookPath(const std::filesystem::path& cache, const ModelKey& model,
                                  const std::string& source) {
  return cache / "runs" / (Hasher().Digest(model).Str(source).Finish().Hex() + ".json");
}

}  // namespace

Result<std::unique_ptr<Workspace>> Workspace::Open(WorkspaceOptions options, bool quiet) {
  std::unique_ptr<Workspace> workspace(new Workspace);  // private constructor
  TRY(CheckModelFiles(options.engine));
  TRY(workspace->OpenEngine(options, quiet));
  TRY(workspace->CheckQuestions(options));
  TRY(workspace->PrepareFacts(std::move(options.facts), options.engine, quiet));
  if (!options.text_only && workspace->text_mode_reason_.empty()) TRY(workspace->Encode(options, quiet));
  workspace->source_.emplace(*workspace->embedder_, *workspace->facts_,
                             workspace->encoder_ ? &*workspace->encoder_ : nullptr, workspace->records_.get(),
                             workspace->engine_->info().kv_shape);
  return workspace;
}

Status Workspace::OpenEngine(const WorkspaceOptions& options, bool quiet) {
  TRY_ASSIGN(engine_, LoadEngine(options.engine, {.text_only = options.text_only, .quiet = quiet}));
  TRY_ASSIGN(embedder_, LoadEmbedder(options.engine));
  layout_.emplace(PromptLayout::Make(engine_->tokenizer(), engine_->chat_template()));
  if (options.text_only) return {};
  text_mode_reason_ = TextModeReason(*engine_, *layout_);
  if (!text_mode_reason_.empty()) PrintWarning("facts go in as text, nothing is injected: " + text_mode_reason_);
  return {};
}

Status Workspace::CheckQuestions(const WorkspaceOptions& options) const {
  for (const std::string& question : options.questions) {
    TRY_ASSIGN(const Tokens after, layout_->AfterFacts("", {}, question));
    TRY(CheckFits(engine_->info(), layout_->header(), after, options.max_tokens));
  }
  return {};
}

Status Workspace::PrepareFacts(std::vector<Fact> facts, const EngineFlags& flags, bool quiet) {
  const auto count = [this](std::string_view text) {  // a part must suit both models
    return std::max(embedder_->CountTokens(text), engine_->tokenizer().Text(text).size());
  };
  TRY_ASSIGN(facts, SplitLongFacts(std::move(facts), count, limits::kFactPartTokens));
  SortByEventTime(facts);
  TRY_ASSIGN(vectors_, VectorCache::Open(flags.cache_folder / ("vectors-" + embedder_->key().Hex() + ".bin"),
                                         embedder_->key(), embedder_->dim()));
  std::optional<ProgressBar> bar;
  TRY_ASSIGN(facts_, FactSet::Make(std::move(facts), engine_->tokenizer(), *embedder_, vectors_.get(),
                                   BarOf(bar, quiet, "Embedding facts", "facts")));
  PrintMessages(vectors_->TakeMessages());
  return {};
}

Status Workspace::Encode(const WorkspaceOptions& options, bool quiet) {
  const std::filesystem::path& cache = options.engine.cache_folder;
  TRY_ASSIGN(records_, RecordCache::Open(cache / "records", {.recent_bytes = limits::kRecentRecordBytes}));
  std::vector<TurnItem> turns;
  for (const Turn& turn : options.turns) turns.push_back({turn, engine_->tokenizer().Text(turn.PromptText())});
  TRY_ASSIGN(const WindowPlanner planner, WindowPlanner::Make(options.window, *facts_, std::move(turns)));

  const std::filesystem::path book_path =
      RunBookPath(cache, engine_->info().model_key, options.facts_source + "\n" + options.window.ToString());
  const int run_facts = std::max(1, options.window.count);  // other windows than anchored ones leave the book empty
  RunBook book(run_facts, limits::kRunTokens);
  const Result<std::string> kept = ReadFile(book_path, limits::kRunBookBytes);
  Result<RunBook> parsed = kept ? RunBook::FromJson(*kept, run_facts, limits::kRunTokens)
                                : Result<RunBook>(tl::unexpected<Error>(kept.error()));
  if (parsed)
    book = std::move(*parsed);
  else if (parsed.error().code != ErrorCode::kNotFound)
    PrintWarning("runs are grouped anew: " + parsed.error().message);
  size_t longest = 0;
  for (size_t i = 0; i < facts_->size(); ++i) longest = std::max(longest, (*facts_)[i].tokens.size());
  const size_t taken = layout_->header().size() + longest, context = engine_->info().context_tokens;
  TRY_ASSIGN(const std::vector<WindowGroup> groups, planner.Plan(book, context - std::min(context, taken)));
  if (MakeDirectories(book_path.parent_path())) (void)WriteFileAtomic(book_path, book.ToJson());

  encoder_.emplace(*engine_, *records_, *facts_, layout_->header(), std::string(kLocalNamespace));
  std::optional<ProgressBar> bar;
  TRY_ASSIGN(encode_stats_, encoder_->Run(groups, options.window.kind, BarOf(bar, quiet, "Encoding facts", "facts")));
  PrintMessages(records_->TakeMessages());
  return {};
}

AnswerContext Workspace::context() { return {*engine_, *layout_, *source_}; }

}  // namespace inferscale
