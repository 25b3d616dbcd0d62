#include "app/update_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/fact_lines.h"
#include "app/memory_flags.h"
#include "app/number_flag.h"
#include "app/terminal_text.h"

namespace inferscale {

namespace {

struct UpdateFlags {
  MemoryFlags memory;
  std::string id;
  std::optional<std::string> text, date, expires, metadata;
  bool no_date = false, no_expires = false;
  std::optional<uint32_t> version;
};

Result<Memory::Update> FromFlags(const UpdateFlags& flags) {
  TRY(CheckGivenId(flags.id, "id"));
  Memory::Update update;
  update.text = flags.text;
  update.metadata = flags.metadata;
  update.expected_version = flags.version;
  if (flags.no_date) update.date = std::optional<Date>();
  if (flags.no_expires) update.expires_us = std::optional<Micros>();
  FactInput probe;  // what can be told to be wrong before the model is loaded
  probe.text = flags.text.value_or("x");
  probe.metadata = flags.metadata.value_or("");
  if (flags.date) {
    Result<Date> date = ParseDate(*flags.date);
    if (!date) return Wrap(std::move(date).error(), "--date");
    update.date = std::optional(*date);
  }
  if (flags.expires) {
    Result<Micros> instant = ParseInstant(*flags.expires);
    if (!instant) return Wrap(std::move(instant).error(), "--expires");
    update.expires_us = probe.expires_us = std::optional(*instant);
  }
  TRY(CheckFactInput(probe));
  if (!update.text && !update.date && !update.expires_us && !update.metadata)
    return Fail(ErrorCode::kInvalidArgument,
                "nothing to change: give --text, --date, --no-date, --expires, --no-expires or --metadata");
  return update;
}

Result<int> RunUpdate(const UpdateFlags& flags) {
  TRY_ASSIGN(const Memory::Update update, FromFlags(flags));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "update", MemoryUse::kSearch));
  TRY_ASSIGN(const UpdateResult result, opened.memory->UpdateFact(flags.memory.name_space, flags.id, update));
  if (flags.memory.json)
    PrintJson({{"id", flags.id}, {"version", result.version}, {"content_changed", result.content_changed}});
  else
    PrintOut(fmt::format("updated    {}, version {}\n", ForTerminal(flags.id), result.version));
  return 0;
}

constexpr const char* kFooter = R"(Examples:
  inferscale update f1 --text "Nora adopted a black cat"
  inferscale update f1 --date 2023-05-09 --metadata '{"source": "letter"}'
  inferscale update f1 --no-expires --if-version 2

A new text or date is a new version; KV that has seen the old one is destroyed at once. The old words stay in
`inferscale history` until the fact is forgotten. --if-version fails (exit status 2) when somebody else was faster.)";

}  // namespace

void AddUpdateCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<UpdateFlags>();
  CLI::App* update = app.add_subcommand("update", "Change a fact");
  update->add_option("ID", flags->id, "Of the fact")->required()->type_name("");
  update->add_option("--text", flags->text, "New text")->type_name("TEXT");
  CLI::Option* date = update->add_option("--date", flags->date, "New day of the event")->type_name("YYYY-MM-DD");
  update->add_flag("--no-date", flags->no_date, "It has no date")->excludes(date);
  CLI::Option* expires =
      update->add_option("--expires", flags->expires, "From then on it is not found")->type_name("INSTANT");
  update->add_flag("--no-expires", flags->no_expires, "It does not expire")->excludes(expires);
  update->add_option("--metadata", flags->metadata, "A JSON object in place of the old one")->type_name("JSON");
  AddNumber(*update, "--if-version", flags->version, 1u, UINT32_MAX, "Only if this is its version");
  AddMemoryFlags(*update, flags->memory);
  AddEmbedFlag(*update, flags->memory);
  update->footer(kFooter);
  OnCommand(*update, status, [flags] { return RunUpdate(*flags); });
}

}  // namespace inferscale
