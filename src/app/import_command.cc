#include "app/import_command.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/console.h"
#include "app/encode_run.h"
#include "app/fact_importer.h"
#include "app/fact_lines.h"
#include "app/input_text.h"
#include "app/memory_flags.h"
#include "app/memory_session.h"
#include "app/unknown_keys.h"
#include "base/limits.h"

namespace inferscale {

namespace {

constexpr size_t kShownLines = 10;  // of what was not stored: the first tell what is wrong

struct ImportFlags {
  MemoryFlags memory;
  EngineFlags engine;
  std::string facts_path, turns_path;
  bool encode = false;
};

nlohmann::ordered_json CountsToJson(const ImportCounts& counts) {
  return {{"done", counts.done},         {"total", counts.total},
          {"added", counts.added},       {"duplicates", counts.duplicates},
          {"changed", counts.changed},   {"expired", counts.expired},
          {"replaced", counts.replaced}, {"id_taken", counts.id_taken}};
}

// One line for each batch that is durable: as JSON for programs, or a bar for people.
FactImporter::OnBatch Reporter(const MemoryFlags& flags, const char* what, std::optional<ProgressBar>& bar) {
  return [&flags, &bar, what](const ImportCounts& counts, std::span<const std::string> acknowledged) {
    if (flags.json) {
      nlohmann::ordered_json json = CountsToJson(counts);
      json.erase("id_taken");
      json["acknowledged"] = acknowledged;
      PrintOut(ToLine({{what, std::move(json)}}));
    } else if (!flags.quiet) {
      if (!bar) bar.emplace(fmt::format("Importing {}", what), what);
      bar->Update(counts.done, counts.total);
    }
  };
}

void Tell(const ImportCounts& facts, std::string_view name, bool quiet) {
  if (facts.expired > 0 && !quiet) PrintNote(fmt::format("{}: {} were left out: expired", name, facts.expired));
  if (facts.replaced > 0)
    PrintWarning(
        fmt::format("{}: {} were left out: a fact that is not there any more had replaced them", name, facts.replaced));
  for (size_t i = 0; i < std::min(facts.id_taken.size(), kShownLines); ++i)
    PrintError({ErrorCode::kConflict,
                fmt::format("{}: line {}: not stored: another fact has its id", name, facts.id_taken[i])});
  if (facts.id_taken.size() > kShownLines)
    PrintError({ErrorCode::kConflict, fmt::format("{}: and {} more", name, facts.id_taken.size() - kShownLines)});
}

struct Imported {
  ImportCounts turns, facts;
};

// Each line is acknowledged when it is durable.
Result<Imported> Store(Memory& memory, const ImportFlags& flags, const std::vector<TurnLine>& turns,
                       std::vector<FactLine> facts) {
  Imported imported;
  const std::string& ns = flags.memory.name_space;
  std::optional<ProgressBar> turn_bar, fact_bar;
  const std::string turns_name = InputName(flags.turns_path), facts_name = InputName(flags.facts_path);
  FactImporter turn_importer(memory, ns, turns_name, Reporter(flags.memory, "turns", turn_bar));
  TRY_ASSIGN(imported.turns, turn_importer.Turns(turns));
  turn_bar.reset();
  FactImporter fact_importer(memory, ns, facts_name, Reporter(flags.memory, "facts", fact_bar));
  TRY_ASSIGN(imported.facts, fact_importer.Facts(std::move(facts)));
  return imported;
}

void Show(const Imported& imported, bool had_turns, bool json) {
  const auto& [turns, facts] = imported;
  if (json) return PrintOut(ToLine({{"finished", {{"turns", CountsToJson(turns)}, {"facts", CountsToJson(facts)}}}}));
  PrintOut(fmt::format("imported   {}, {} were there already", Counted(facts.added, "fact"), facts.duplicates));
  if (had_turns)
    PrintOut(fmt::format("; {}, {} changed, {} were there already", Counted(turns.added, "turn"), turns.changed,
                         turns.duplicates));
  PrintOut("\n");
}

// A memory alone, or with the language model that --encode needs: when that cannot be had, nothing is stored either.
struct Place {
  OpenedMemory opened;
  std::unique_ptr<MemorySession> session;
  Memory& memory() { return session != nullptr ? session->memory() : *opened.memory; }
};

Result<Place> OpenPlace(const ImportFlags& flags) {
  Place place;
  if (!flags.encode) {
    TRY_ASSIGN(place.opened, OpenMemory(flags.memory, "import", MemoryUse::kAdd));
    return place;
  }
  MemorySessionOptions options;
  options.memory = flags.memory;
  options.engine = flags.engine;
  options.command = "import";
  options.use = MemoryUse::kAdd;
  TRY_ASSIGN(place.session, MemorySession::Open(std::move(options)));
  if (!place.session->text_mode_reason().empty())
    return Fail(ErrorCode::kModelUnsupported, "nothing can be encoded for this model: leave --encode out");
  return place;
}

Result<int> Encode(MemorySession& session, const MemoryFlags& flags) {
  TRY_ASSIGN(const EncodeRun run, RunEncoding(session, flags, EncodeWhat::kQueued, false));
  if (flags.json)
    PrintOut(ToLine({{"encoded", EncodeRunToJson(run, session.memory().vault())}}));
  else
    PrintEncodeRun(run, session.memory().vault());
  return EncodeStatus(run.stats);
}

Result<int> RunImport(ImportFlags& flags) {
  flags.memory.embed_model = flags.engine.embed_model.string();
  if (flags.facts_path == "-" && flags.turns_path == "-")
    return Fail(ErrorCode::kInvalidArgument, "facts and turns cannot both come from standard input: name a file");
  const std::string facts_name = InputName(flags.facts_path), turns_name = InputName(flags.turns_path);
  TRY_ASSIGN(const std::string content, ReadInput(flags.facts_path));
  TRY_ASSIGN(std::vector<FactLine> facts, ParseFactLines(content, facts_name));
  WarnOfUnknownKeys(std::span<const FactLine>(facts), facts_name);
  std::vector<TurnLine> turns;
  if (!flags.turns_path.empty()) {
    TRY_ASSIGN(const std::string turns_content, ReadInput(flags.turns_path));
    TRY_ASSIGN(turns, ParseTurnLines(turns_content, turns_name));
    WarnOfUnknownKeys(std::span<const TurnLine>(turns), turns_name);
  }
  TRY_ASSIGN(Place place, OpenPlace(flags));
  TRY_ASSIGN(const Imported imported, Store(place.memory(), flags, turns, std::move(facts)));
  Tell(imported.facts, facts_name, flags.memory.quiet);
  Show(imported, !turns.empty(), flags.memory.json);
  int status = 0;
  if (place.session != nullptr) {
    TRY_ASSIGN(status, Encode(*place.session, flags.memory));
  }
  return imported.facts.id_taken.empty() ? status : kIncomplete;
}

constexpr const char* kFooter = R"(Examples:
  inferscale import facts.jsonl --turns turns.jsonl
  inferscale import facts.jsonl --encode
  inferscale export --namespace a | inferscale import - --namespace a --data-dir other

One JSON object a line; only "text" is required:
  {"text": "Nora adopted a grey cat", "date": "2023-05-08", "id": "f1", "turn": "t7", "metadata": {"source": "chat"},
   "expires": "2030-01-01T00:00:00Z", "supersede_key": "pet", "user_id": "alex", "agent_id": "a", "run_id": "r",
   "app_id": "p"}
and "supersedes": ["f0"], ids of facts that it replaces. `inferscale export` adds "order_day", which orders a fact
without a date, and "superseded_by". Other keys are not kept, and named.
--turns: {"id": "t7", "speaker": "Nora", "text": "Hi", "date": "2023-05-08", "ordinal": 7}; id and text are required.

The whole file is checked first: with a mistake in any line nothing is stored, and the error names the line (only a
"supersedes" that names no fact is found later: what stands before it is stored). Facts
without a date are ordered by their place in the file. Then batches of 64 are stored, each durable before it is
reported. An import that was interrupted is run again: what is there is a duplicate and changes nothing. Lines with the
id of another fact are not stored, and named (exit status 2).

--encode computes the KV of what waits for it in the namespace when all is stored, as `inferscale encode` does; --model,
--cache-dir, --threads and --context are for that. Without it the facts are text until they are encoded.

--json prints a line for each batch, {"facts": {"done": …, "added": …, "acknowledged": [ids], …}}, and one at the end,
{"finished": {"turns": {…}, "facts": {…}}}; with --encode then {"encoded": {…}}.)";

}  // namespace

void AddImportCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "Store the facts of a file");
  command->add_option("F.jsonl", flags->facts_path, "Facts, JSON Lines; -: standard input")->required()->type_name("");
  command->add_option("--turns", flags->turns_path, "Turns of the conversation they come from")->type_name("T.jsonl");
  AddMemoryFlags(*command, flags->memory);
  CLI::Option* encode = command->add_flag("--encode", flags->encode, "Then compute the KV that is waited for");
  AddEngineFlags(*command, flags->engine, true);
  for (const char* name : {"--model", "--cache-dir", "--threads", "--context"})
    command->get_option(name)->needs(encode);
  AddBudgetFlags(*command, flags->memory);
  command->footer(kFooter);
  OnCommand(*command, status, [flags] { return RunImport(*flags); });
}

}  // namespace inferscale
