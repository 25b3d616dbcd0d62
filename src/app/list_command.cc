#include "app/list_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/fact_lines.h"
#include "app/kv_state.h"
#include "app/memory_flags.h"
#include "app/number_flag.h"
#include "app/terminal_text.h"
#include "base/limits.h"
#include "index/filter.h"

namespace inferscale {

namespace {

struct ListFlags {
  MemoryFlags memory;
  ListOptions options;
  std::string filter;
};

struct HistoryFlags {
  MemoryFlags memory;
  std::string id;
};

// The first `limit` facts that match, and whether there are more.
Result<std::vector<FactRow>> Collect(Catalog& catalog, NamespaceId ns, const ListFlags& flags, bool& more) {
  TRY_ASSIGN(const Filter filter, Filter::Parse(flags.filter));
  std::vector<FactRow> rows;
  ListOptions page = flags.options;
  page.limit = limits::kListPage;
  for (;;) {
    TRY_ASSIGN(std::vector<FactRow> facts, catalog.ListFacts(ns, page));
    for (FactRow& fact : facts) {
      if (!filter.Matches(FilterFact::Of(fact))) continue;
      more = rows.size() == flags.options.limit;
      if (more) return rows;
      rows.push_back(std::move(fact));
    }
    if (facts.empty()) return rows;
    page.after = facts.back().seq;
  }
}

// Of the whole namespace: a damaged row does not say on which page it would be.
Result<uint64_t> CountDamaged(Catalog& catalog, NamespaceId ns) {
  TRY_ASSIGN(const ScanStats stats, catalog.ScanFacts(ns, {.parents = true}, [](const ScanRow&) { return true; }));
  return stats.damaged_facts;
}

nlohmann::ordered_json RowToJson(const FactRow& fact, std::string_view kv) {
  nlohmann::ordered_json json = FactToJson(fact);
  if (!json.contains("date")) json["date"] = nullptr;
  json["kv"] = kv;
  json["version"] = fact.version;
  json["created_at"] = InstantText(fact.created_us);
  json["updated_at"] = InstantText(fact.updated_us);
  json["seq"] = fact.seq;
  return json;
}

void PrintRow(const FactRow& fact, size_t width, std::string_view kv) {
  PrintOut(fmt::format("{:<{}}  {:<10}  {:<7}  {}{}\n", ForTerminal(fact.id), width, fact.date ? fact.date->Iso() : "-",
                       kv, ForTerminal(fact.text), fact.superseded_by.empty() ? "" : "  [superseded]"));
}

Result<int> RunList(const ListFlags& flags) {
  TRY(Filter::Parse(flags.filter));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "list", MemoryUse::kLook));
  Catalog& catalog = opened.memory->catalog();
  TRY_ASSIGN(const std::optional<NamespaceInfo> ns, FindNameSpace(*opened.memory, flags.memory));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  bool more = false;
  FactSeq last = 0;
  uint64_t damaged = 0;
  if (ns) {
    TRY_ASSIGN(damaged, CountDamaged(catalog, ns->id));
    TRY_ASSIGN(const std::vector<FactRow> rows, Collect(catalog, ns->id, flags, more));
    TRY_ASSIGN(const KvStates states, KvStates::Read(catalog, ns->id));
    size_t width = 0;
    for (const FactRow& row : rows) width = std::max(width, row.id.size());
    for (const FactRow& row : rows) {
      TRY_ASSIGN(const std::string_view kv, states.Of(catalog, row));
      if (flags.memory.json)
        json.push_back(RowToJson(row, kv));
      else
        PrintRow(row, width, kv);
      last = row.seq;
    }
  }
  if (flags.memory.json) PrintJson(json);
  if (more && !flags.memory.quiet) PrintNote(fmt::format("there are more: --after {} shows the next", last));
  if (damaged == 0) return 0;
  return Fail(ErrorCode::kCorrupt,
              fmt::format("{} rows are damaged and were left out: `inferscale fsck` names them", damaged));
}

const char* EventName(HistoryEvent event) {
  switch (event) {
    case HistoryEvent::kAdd:
      return "add";
    case HistoryEvent::kUpdate:
      return "update";
    case HistoryEvent::kDelete:
      return "delete";
    case HistoryEvent::kExpire:
      return "expire";
    case HistoryEvent::kSupersede:
      return "supersede";
  }
  return "unknown";
}

nlohmann::ordered_json OrNull(const std::optional<std::string>& text) {
  return text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json();
}

// Behind the event, where there are any.
std::string Words(const std::optional<std::string>& text) { return text ? "  " + ForTerminal(*text) : ""; }

Result<int> RunHistory(const HistoryFlags& flags) {
  TRY(CheckGivenId(flags.id, "id"));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "history", MemoryUse::kLook));
  TRY_ASSIGN(const NamespaceInfo ns, opened.memory->Find(flags.memory.name_space));
  TRY_ASSIGN(const std::vector<HistoryEntry> entries, opened.memory->catalog().History(ns.id, flags.id));
  if (entries.empty())
    return Fail(ErrorCode::kNotFound, fmt::format("there never was a fact {} in the namespace {}",
                                                  ForTerminal(flags.id), ForTerminal(flags.memory.name_space)));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const HistoryEntry& entry : entries) {
    const std::string at = InstantText(entry.at_us);
    if (flags.memory.json)
      json.push_back({{"event", EventName(entry.event)},
                      {"at", at},
                      {"old_text", OrNull(entry.old_text)},
                      {"new_text", OrNull(entry.new_text)}});
    else
      PrintOut(fmt::format("{:<27}  {}{}\n", at, EventName(entry.event), Words(entry.new_text)));
  }
  if (flags.memory.json) PrintJson(json);
  return 0;
}

constexpr const char* kListFooter = R"(Examples:
  inferscale list --limit 20 --newest
  inferscale list --filter '{"topic": "pets"}' --json

kv says whether a fact's KV is there for some model (encoded), will be computed (queued), or neither (text). JSON: an
array of id, text, date, the other fields of `inferscale export`, kv, version, created_at, updated_at, seq.)";

}  // namespace

void AddListCommands(CLI::App& app, int* status) {
  auto flags = std::make_shared<ListFlags>();
  CLI::App* list = app.add_subcommand("list", "Show what is stored");
  AddNumber(*list, "--limit", flags->options.limit, size_t{1}, limits::kFactsPerFile, "Facts at most")
      ->capture_default_str();
  AddNumber(*list, "--after", flags->options.after, FactSeq{0}, FactSeq{INT64_MAX},
            "Only those behind this one: the \"seq\" of the last fact shown")
      ->type_name("SEQ");
  list->add_flag("--newest", flags->options.newest_first, "Those that arrived last first");
  list->add_flag("--superseded", flags->options.superseded, "Also facts that a newer one replaced");
  list->add_option("--filter", flags->filter, "Only facts that match (docs/filters.md)")->type_name("JSON");
  AddMemoryFlags(*list, flags->memory);
  list->footer(kListFooter);
  OnCommand(*list, status, [flags] { return RunList(*flags); });

  auto history = std::make_shared<HistoryFlags>();
  CLI::App* command = app.add_subcommand("history", "Show what became of a fact");
  command->add_option("ID", history->id, "Of the fact; it may be forgotten")->required()->type_name("");
  AddMemoryFlags(*command, history->memory);
  command->footer(
      "Example:\n  inferscale history f1\n\nOldest first. After an update the old words are here, until the fact is "
      "forgotten: then its events alone.");
  OnCommand(*command, status, [history] { return RunHistory(*history); });
}

}  // namespace inferscale
