#include "app/import_command.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/console.h"
#include "app/fact_importer.h"
#include "app/fact_lines.h"
#include "app/input_text.h"
#include "app/memory_flags.h"
#include "base/limits.h"

namespace inferscale {

namespace {

constexpr size_t kShownLines = 10;  // of what was not stored: the first tell what is wrong

struct ImportFlags {
  MemoryFlags memory;
  std::string facts_path, turns_path;
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

Result<int> RunImport(const ImportFlags& flags) {
  if (flags.facts_path == "-" && flags.turns_path == "-")
    return Fail(ErrorCode::kInvalidArgument, "facts and turns cannot both come from standard input: name a file");
  const std::string facts_name = InputName(flags.facts_path), turns_name = InputName(flags.turns_path);
  TRY_ASSIGN(const std::string content, ReadInput(flags.facts_path));
  TRY_ASSIGN(std::vector<FactLine> facts, ParseFactLines(content, facts_name));
  std::vector<TurnLine> turns;
  if (!flags.turns_path.empty()) {
    TRY_ASSIGN(const std::string turns_content, ReadInput(flags.turns_path));
    TRY_ASSIGN(turns, ParseTurnLines(turns_content, turns_name));
  }
  const MemoryFlags& memory = flags.memory;
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(memory, "import", MemoryUse::kAdd));
  std::optional<ProgressBar> turn_bar, fact_bar;
  ImportCounts turn_counts, fact_counts;
  TRY_ASSIGN(
      turn_counts,
      FactImporter(*opened.memory, memory.name_space, turns_name, Reporter(memory, "turns", turn_bar)).Turns(turns));
  turn_bar.reset();
  TRY_ASSIGN(fact_counts,
             FactImporter(*opened.memory, memory.name_space, facts_name, Reporter(memory, "facts", fact_bar))
                 .Facts(std::move(facts)));
  fact_bar.reset();
  Tell(fact_counts, facts_name, memory.quiet);
  if (memory.json) {
    PrintOut(ToLine({{"finished", {{"turns", CountsToJson(turn_counts)}, {"facts", CountsToJson(fact_counts)}}}}));
  } else {
    PrintOut(fmt::format("imported   {} facts, {} were there already", fact_counts.added, fact_counts.duplicates));
    if (!turns.empty())
      PrintOut(fmt::format("; {} turns, {} changed, {} were there already", turn_counts.added, turn_counts.changed,
                           turn_counts.duplicates));
    PrintOut("\n");
  }
  return fact_counts.id_taken.empty() ? 0 : kIncomplete;
}

constexpr const char* kFooter = R"(Examples:
  inferscale import facts.jsonl --turns turns.jsonl
  inferscale export --namespace a | inferscale import - --namespace a --data-dir other

One JSON object a line; only "text" is required:
  {"text": "Nora adopted a grey cat", "date": "2023-05-08", "id": "f1", "turn": "t7", "metadata": {"source": "chat"},
   "expires": "2030-01-01T00:00:00Z", "supersede_key": "pet", "supersedes": ["f0"], "user_id": "alex", "agent_id": "a",
   "run_id": "r", "app_id": "p"}
--turns: {"id": "t7", "speaker": "Nora", "text": "Hi", "date": "2023-05-08", "ordinal": 7}; id and text are required.

The whole file is checked first: with a mistake in any line nothing is stored, and the error names the line. Facts
without a date are ordered by their place in the file. Then batches of 64 are stored, each durable before it is
reported. An import that was interrupted is run again: what is there is a duplicate and changes nothing. Lines with the
id of another fact are not stored, and named (exit status 2).

--json prints a line for each batch, {"facts": {"done": …, "added": …, "acknowledged": [ids], …}}, and one at the end,
{"finished": {"turns": {…}, "facts": {…}}}.)";

}  // namespace

void AddImportCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<ImportFlags>();
  CLI::App* command = app.add_subcommand("import", "Store the facts of a file");
  command->add_option("F.jsonl", flags->facts_path, "Facts, JSON Lines; -: standard input")->required()->type_name("");
  command->add_option("--turns", flags->turns_path, "Turns of the conversation they come from")->type_name("T.jsonl");
  AddMemoryFlags(*command, flags->memory);
  AddEmbedFlag(*command, flags->memory);
  AddBudgetFlags(*command, flags->memory);
  command->footer(kFooter);
  OnCommand(*command, status, [flags] { return RunImport(*flags); });
}

}  // namespace inferscale
