#include "app/upkeep_command.h"

#include <fmt/format.h>

#include <algorithm>

#include <nlohmann/json.hpp>
#include <optional>

#include "app/console.h"
#include "app/memory_flags.h"

namespace inferscale {

namespace {

struct FsckFlags {
  MemoryFlags memory;
  bool repair = false;
};

nlohmann::ordered_json AsJson(const std::map<KvEncoding, uint64_t>& records_as) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [encoding, count] : records_as) json[std::string(KvEncodingName(encoding))] = count;
  return json;
}

// Of new records, and how many there are that are stored otherwise.
std::string AsText(const MemoryStats& stats) {
  std::string text = fmt::format("as {}", KvEncodingName(stats.kv_encoding));
  for (const auto& [encoding, count] : stats.records_as)
    if (encoding != stats.kv_encoding) text += fmt::format(", {} as {}", count, KvEncodingName(encoding));
  return text;
}

Result<int> RunStats(const MemoryFlags& flags) {
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags, "stats", MemoryUse::kLook));
  TRY_ASSIGN(const MemoryStats stats, opened.memory->Stats());
  TRY_ASSIGN(const std::optional<EmbedderInfo> embedder, opened.memory->catalog().CurrentEmbedder());
  if (flags.json) {
    PrintJson({{"data_dir", flags.data_folder.string()},
               {"facts", stats.facts},
               {"namespaces", stats.namespaces},
               {"embedder", embedder ? nlohmann::ordered_json(embedder->name) : nlohmann::ordered_json()},
               {"kv",
                {{"records", stats.records},
                 {"records_as", AsJson(stats.records_as)},
                 {"encoding", KvEncodingName(stats.kv_encoding)},
                 {"bytes", stats.kv_bytes},
                 {"file_bytes", stats.kv_file_bytes},
                 {"budget_bytes", stats.kv_budget_bytes},
                 {"namespace_budget_bytes", stats.kv_namespace_budget_bytes}}},
               {"queue", {{"queued", stats.queue.queued}, {"due", stats.queue.due}, {"failing", stats.queue.failing}}},
               {"erase_pending", stats.erase_pending}});
    return 0;
  }
  constexpr double kMiB = 1 << 20;
  PrintOut(fmt::format("folder         {}\nembedder       {}\nfacts          {} in {} namespaces\n",
                       flags.data_folder.string(), embedder ? embedder->name : "none yet", stats.facts,
                       stats.namespaces));
  PrintOut(fmt::format(
      "KV             {} records {}, {:.1f} MiB; files {:.1f} of {:.0f} MiB{}\n", stats.records, AsText(stats),
      static_cast<double>(stats.kv_bytes) / kMiB, static_cast<double>(stats.kv_file_bytes) / kMiB,
      static_cast<double>(stats.kv_budget_bytes) / kMiB,
      stats.kv_namespace_budget_bytes < stats.kv_budget_bytes
          ? fmt::format(", {:.0f} MiB a namespace", static_cast<double>(stats.kv_namespace_budget_bytes) / kMiB)
          : ""));
  PrintOut(fmt::format("encode queue   {}, {} of them due, {} failing\nto be erased   {} records\n", stats.queue.queued,
                       stats.queue.due, stats.queue.failing, stats.erase_pending));
  return 0;
}

// Of the findings, those that are as they were.
size_t CountLeft(const std::vector<FsckFinding>& findings) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(), [](const FsckFinding& finding) { return !finding.repaired; }));
}

Result<int> RunFsck(const FsckFlags& flags) {
  TRY_ASSIGN(const OpenedMemory opened,
             OpenMemory(flags.memory, "fsck", flags.repair ? MemoryUse::kSearch : MemoryUse::kLook));
  TRY_ASSIGN(const std::vector<FsckFinding> findings, opened.memory->Fsck(flags.repair));
  size_t left = CountLeft(findings);
  if (left > 0 && flags.repair) {  // vectors and terms were made anew after they were reported
    TRY_ASSIGN(const std::vector<FsckFinding> again, opened.memory->Fsck(false));
    left = CountLeft(again);
  }
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const FsckFinding& finding : findings) {
    if (flags.memory.json)
      json.push_back({{"what", finding.what}, {"repaired", finding.repaired}});
    else
      PrintOut(fmt::format("{:<9}  {}\n", finding.repaired ? "repaired" : "found", finding.what));
  }
  if (flags.memory.json)
    PrintJson({{"findings", std::move(json)}, {"left", left}});
  else
    PrintOut(left == 0
                 ? "clean\n"
                 : fmt::format("{} {}\n", left, flags.repair ? "left" : "found: --repair mends what can be made anew"));
  return left == 0 ? 0 : ExitStatus(ErrorCode::kCorrupt);
}

Result<int> RunReembed(const MemoryFlags& flags) {
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags, "reembed", MemoryUse::kReembed));
  size_t made = 0;
  {
    std::optional<ProgressBar> bar;
    TRY(opened.memory->Reembed([&](size_t done, size_t total) {
      made = done;
      if (flags.quiet || flags.json) return;
      if (!bar) bar.emplace("Embedding facts", "facts");
      bar->Update(done, total);
    }));
  }
  if (flags.json)
    PrintJson({{"embedder", opened.embedder->name()}, {"embedded", made}});
  else
    PrintOut(fmt::format("embedded   {} texts with {}\n", made, opened.embedder->name()));
  return 0;
}

}  // namespace

void AddUpkeepCommands(CLI::App& app, int* status) {
  auto stats = std::make_shared<MemoryFlags>();
  CLI::App* command = app.add_subcommand("stats", "Count facts, KV, and what is to be done");
  AddMemoryFlags(*command, *stats);
  command->remove_option(command->get_option("--namespace"));  // they are counted together
  command->footer("Example:\n  inferscale stats --json");
  OnCommand(*command, status, [stats] { return RunStats(*stats); });

  auto fsck = std::make_shared<FsckFlags>();
  fsck->memory.check_pages = false;
  command = app.add_subcommand("fsck", "Check that everything stored twice agrees");
  command->add_flag("--repair", fsck->repair, "Make again what can be derived from the facts");
  AddMemoryFlags(*command, fsck->memory);
  command->remove_option(command->get_option("--namespace"));
  AddEmbedFlag(*command, fsck->memory);
  command->footer(
      "Examples:\n  inferscale fsck\n  inferscale fsck --repair\n\nReads every byte: facts, vectors, keywords, fact "
      "runs, KV. Exit status 4 when something is left that is wrong.\nA lost text is named, and cannot be repaired.");
  OnCommand(*command, status, [fsck] { return RunFsck(*fsck); });

  auto reembed = std::make_shared<MemoryFlags>();
  command = app.add_subcommand("reembed", "Make all vectors anew, after a change of the embedding model");
  AddMemoryFlags(*command, *reembed);
  command->remove_option(command->get_option("--namespace"));
  AddEmbedFlag(*command, *reembed);
  command->footer(
      "Example:\n  inferscale reembed --embed-model multilingual-e5-small.gguf\n\nVectors of two models cannot be "
      "compared: with another --embed-model than the stored one every command that adds or\nsearches refuses, until "
      "this has run. When it is interrupted, run it again: it goes on where it ended.");
  OnCommand(*command, status, [reembed] { return RunReembed(*reembed); });
}

}  // namespace inferscale
