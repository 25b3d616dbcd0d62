#include "app/forget_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/memory_flags.h"
#include "app/terminal_text.h"
#include "index/filter.h"

namespace inferscale {

namespace {

struct ForgetFlags {
  MemoryFlags memory;
  std::vector<std::string> ids;
  std::optional<std::string> filter;
  bool all = false, expired = false, yes = false;
};

Status CheckFlags(const ForgetFlags& flags) {
  const int ways = (flags.ids.empty() ? 0 : 1) + (flags.filter ? 1 : 0) + (flags.all ? 1 : 0) + (flags.expired ? 1 : 0);
  if (ways != 1)
    return Fail(ErrorCode::kInvalidArgument, std::string(ways == 0 ? "say what to forget" : "say one thing to forget") +
                                                 ": ids, or one of --filter, --all, --expired");
  if (flags.yes && !flags.all && !flags.filter)
    return Fail(ErrorCode::kInvalidArgument, "--yes goes with --all or --filter");
  for (const std::string& id : flags.ids) TRY(CheckGivenId(id, "id"));
  if (!flags.filter) return {};
  Result<Filter> filter = Filter::Parse(*flags.filter);
  if (!filter) return Wrap(std::move(filter).error(), "--filter");
  if (filter->empty())
    return Fail(ErrorCode::kInvalidArgument, "--filter matches every fact: to forget them all, say --all");
  return {};
}

// The namespace is named by whoever asks; a person at a terminal confirms. A filter with a word misspelt in it can
// match everything ({"NOT": [{"topicc": "pets"}]}), so it is asked about too when it does.
Status Confirm(const ForgetFlags& flags, uint64_t facts) {
  if (flags.yes) return {};
  if (::isatty(STDIN_FILENO) == 0)
    return Fail(
        ErrorCode::kInvalidArgument,
        flags.all ? "--all asks on a terminal, and there is none: add --yes"
                  : fmt::format("--filter matches all {} facts of the namespace: add --yes if it is meant to", facts));
  fmt::print(stderr, "Forget all {} facts of the namespace {}{}? [y/N] ", facts, ForTerminal(flags.memory.name_space),
             flags.all ? ", and its history" : "");
  std::fflush(stderr);
  std::string answer;
  std::getline(std::cin, answer);
  if (answer == "y" || answer == "Y" || answer == "yes") return {};
  return Fail(ErrorCode::kCancelled, "nothing was forgotten");
}

Result<DeleteResult> Forget(Memory& memory, const ForgetFlags& flags) {
  const std::string& name_space = flags.memory.name_space;
  if (flags.expired) return memory.ForgetExpired();
  TRY_ASSIGN(const NamespaceInfo info, memory.Find(name_space));
  if (flags.filter) {
    TRY_ASSIGN(const std::vector<std::string> ids, memory.Select(name_space, *flags.filter));
    if (ids.size() >= info.facts && !ids.empty()) TRY(Confirm(flags, info.facts));
    return memory.Forget(name_space, ids);
  }
  if (!flags.all) return memory.Forget(name_space, flags.ids);
  TRY(Confirm(flags, info.facts));
  return memory.ForgetNamespace(name_space);
}

Result<int> RunForget(const ForgetFlags& flags) {
  TRY(CheckFlags(flags));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "forget", MemoryUse::kLook));
  TRY_ASSIGN(const DeleteResult result, Forget(*opened.memory, flags));
  if (flags.memory.json)
    PrintJson({{"deleted", result.deleted}, {"missing", result.missing}});
  else
    PrintOut(fmt::format("forgot     {}\n", Counted(result.deleted, "fact")));
  if (result.missing.empty()) return 0;
  for (const std::string& id : result.missing)
    PrintError({ErrorCode::kNotFound, fmt::format("there is no fact {}", ForTerminal(id))});
  return kIncomplete;
}

constexpr const char* kFooter = R"(Examples:
  inferscale forget f1 f2
  inferscale forget --filter '{"topic": "pets"}'
  inferscale forget --all --namespace user:alex --yes
  inferscale forget --expired                 # of all namespaces

When it returns, the words, their vectors, keywords and KV are in no file of the data folder any more; the history keeps
that there was a fact, and --all deletes that too. The exact number is printed. Ids that are not there: the others are
forgotten, exit status 2.)";

}  // namespace

void AddForgetCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<ForgetFlags>();
  CLI::App* forget = app.add_subcommand("forget", "Delete facts, for good");
  forget->add_option("ID", flags->ids, "Of facts")->type_name("");
  forget->add_option("--filter", flags->filter, "All facts that match")->type_name("JSON");
  forget->add_flag("--all", flags->all, "The whole namespace");
  forget->add_flag("--expired", flags->expired, "What has expired, in all namespaces");
  forget->add_flag("--yes", flags->yes, "Do not ask: with --all, or when --filter matches every fact");
  AddMemoryFlags(*forget, flags->memory);
  forget->footer(kFooter);
  OnCommand(*forget, status, [flags] { return RunForget(*flags); });
}

}  // namespace inferscale
