#include "app/export_command.h"

#include <fmt/format.h>

#include <limits>
#include <unordered_map>

#include "app/console.h"
#include "app/fact_lines.h"
#include "app/memory_flags.h"
#include "base/file.h"
#include "base/limits.h"

namespace inferscale {

namespace {

struct ExportFlags {
  MemoryFlags memory;
  std::string path, turns_path;
};

// Lines to standard output as they come, or to a file that is replaced as a whole.
class LineSink {
 public:
  explicit LineSink(std::string path) : path_(std::move(path)) {}

  void Add(const nlohmann::ordered_json& json) {
    lines_ += ToLine(json);
    if (!path_.empty() || lines_.size() < kPiece) return;
    PrintOut(lines_);
    lines_.clear();
  }
  Status Finish() {
    if (!path_.empty()) return WriteFileAtomic(path_, lines_);
    PrintOut(lines_);
    return {};
  }

 private:
  static constexpr size_t kPiece = 1 << 20;
  std::string path_, lines_;
};

using IdsBySuperseder = std::unordered_map<std::string, std::vector<std::string>>;

// By superseding fact, the ids of those that stand further up: importing it hides them in the same transaction.
Result<IdsBySuperseder> ReadSuperseded(Catalog& catalog, NamespaceId ns) {
  IdsBySuperseder waiting, earlier;
  const auto row = [&](const ScanRow& scanned) {
    const FactRow& fact = scanned.fact;
    if (fact.kind == FactKind::kPart) return true;
    if (const auto found = waiting.find(fact.id); found != waiting.end()) earlier[fact.id] = found->second;
    if (!fact.superseded_by.empty()) waiting[fact.superseded_by].push_back(fact.id);
    return true;
  };
  TRY(catalog.ScanFacts(ns, {.parents = true}, row));
  return earlier;
}

// How many rows were damaged and are not there.
Result<uint64_t> WriteFacts(Catalog& catalog, NamespaceId ns, LineSink& sink) {
  TRY_ASSIGN(const IdsBySuperseder superseded, ReadSuperseded(catalog, ns));
  const auto row = [&](const ScanRow& scanned) {
    if (scanned.fact.kind == FactKind::kPart) return true;
    const auto ids = superseded.find(scanned.fact.id);
    sink.Add(
        FactToJson(scanned.fact, ids != superseded.end() ? std::span(ids->second) : std::span<const std::string>()));
    return true;
  };
  TRY_ASSIGN(const ScanStats stats, catalog.ScanFacts(ns, {.parents = true}, row));
  return stats.damaged_facts;
}

Result<int> RunExport(const ExportFlags& flags) {
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "export", MemoryUse::kLook));
  Catalog& catalog = opened.memory->catalog();
  TRY_ASSIGN(const std::optional<NamespaceInfo> ns, FindNameSpace(*opened.memory, flags.memory));
  LineSink facts(flags.path), turns(flags.turns_path);
  uint64_t damaged = 0;
  if (ns) {
    TRY_ASSIGN(damaged, WriteFacts(catalog, ns->id, facts));
    if (!flags.turns_path.empty()) {
      TRY_ASSIGN(const std::vector<TurnRow> rows, catalog.GetTurns(ns->id, 0, std::numeric_limits<size_t>::max()));
      for (const TurnRow& turn : rows) turns.Add(TurnToJson(turn));
    }
  }
  if (!flags.turns_path.empty()) TRY(turns.Finish());
  TRY(facts.Finish());
  if (damaged == 0) return 0;
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{} rows are damaged and were left out: `inferscale fsck` names them", damaged));
}

constexpr const char* kFooter = R"(Examples:
  inferscale export -o facts.jsonl --turns-out turns.jsonl
  inferscale export --namespace user:alex | wc -l

The format is that of `inferscale import`, with ids, dates, metadata, expiry and supersession: importing it into a new
folder gives the same facts. Facts come in order of arrival. Vectors and KV are derived and are not exported.)";

}  // namespace

void AddExportCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand("export", "Write the facts of a namespace as JSON Lines");
  command->add_option("-o,--out", flags->path, "File to replace; else standard output")->type_name("F.jsonl");
  command->add_option("--turns-out", flags->turns_path, "File for the turns")->type_name("T.jsonl");
  AddMemoryFlags(*command, flags->memory);
  command->remove_option(command->get_option("--json"));  // it is JSON always
  command->footer(kFooter);
  OnCommand(*command, status, [flags] { return RunExport(*flags); });
}

}  // namespace inferscale
