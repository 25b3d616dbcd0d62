#include "app/remember_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/console.h"
#include "app/fact_lines.h"
#include "app/input_text.h"
#include "app/memory_flags.h"
#include "app/unknown_keys.h"
#include "base/blanks.h"
#include "base/limits.h"

namespace inferscale {

namespace {

struct RememberFlags {
  MemoryFlags memory;
  std::vector<std::string> texts, supersedes;
  std::string facts_path, date, id, metadata, expires, key, turn, idempotency_key;
  FactScope scope;
};

// The fact that the flags describe, without its text.
Result<FactInput> FromFlags(const RememberFlags& flags) {
  FactInput fact;
  fact.id = flags.id;
  fact.metadata = flags.metadata;
  fact.scope = flags.scope;
  fact.turn = flags.turn;
  fact.supersede_key = flags.key;
  fact.supersedes = flags.supersedes;
  if (!flags.date.empty()) {
    Result<Date> date = ParseDate(flags.date);
    if (!date) return Wrap(std::move(date).error(), "--date");
    fact.date = *date;
  }
  if (!flags.expires.empty()) {
    Result<Micros> instant = ParseInstant(flags.expires);
    if (!instant) return Wrap(std::move(instant).error(), "--expires");
    fact.expires_us = *instant;
  }
  return fact;
}

bool DescribesFact(const RememberFlags& flags) {
  return !flags.supersedes.empty() || flags.scope != FactScope() ||
         !(flags.date + flags.id + flags.metadata + flags.expires + flags.key + flags.turn).empty();
}

Result<std::vector<FactInput>> FromFile(const RememberFlags& flags) {
  TRY_ASSIGN(const std::string content, ReadInput(flags.facts_path));
  const std::string name = InputName(flags.facts_path);
  TRY_ASSIGN(std::vector<FactLine> lines, ParseFactLines(content, name));
  if (lines.empty())
    return Fail(ErrorCode::kInvalidArgument,
                name + R"( holds no facts: write one like {"text": "Nora has a cat"} on each line)");
  if (lines.size() > limits::kFactsPerBatch)
    return Fail(ErrorCode::kTooLarge, fmt::format("{} holds {} facts, more than {} at once: use `inferscale import`",
                                                  name, lines.size(), limits::kFactsPerBatch));
  WarnOfUnknownKeys(std::span<const FactLine>(lines), name);
  std::vector<FactInput> facts;
  for (FactLine& line : lines) {
    const auto place = [&] { return fmt::format("{}: line {}", name, line.line); };
    if (const Status valid = CheckFactInput(line.input); !valid) return Wrap(valid.error(), place());
    if (!line.superseded_by.empty())
      return Fail(ErrorCode::kInvalidArgument, place() + ": \"superseded_by\" is for `inferscale import`");
    facts.push_back(std::move(line.input));
  }
  return facts;
}

Result<std::vector<FactInput>> Gather(const RememberFlags& flags) {
  TRY_ASSIGN(const FactInput fact, FromFlags(flags));
  if (!flags.facts_path.empty()) {
    if (!flags.texts.empty() || DescribesFact(flags))
      return Fail(ErrorCode::kInvalidArgument, "--facts stands alone: what describes a fact is in its lines");
    return FromFile(flags);
  }
  if (flags.texts.empty()) return Fail(ErrorCode::kInvalidArgument, "there is no text: give one, or --facts F.jsonl");
  const bool one = flags.texts.size() == 1;
  if (!one && (!flags.id.empty() || !flags.key.empty()))
    return Fail(ErrorCode::kInvalidArgument, "--id and --key are of one fact: give one text, in quotes");
  const auto word = [](const std::string& text) { return text.find_first_of(kBlanks) == std::string::npos; };
  if (!one && std::any_of(flags.texts.begin(), flags.texts.end(), word))
    return Fail(ErrorCode::kInvalidArgument,
                "each word would be a fact of its own: put the text in quotes, like \"Nora has a cat\"");
  if (one && flags.texts[0] == "-")
    return Fail(ErrorCode::kInvalidArgument, "- is no text: `--facts -` reads JSON Lines from standard input");
  std::vector<FactInput> facts(flags.texts.size(), fact);
  for (size_t i = 0; i < facts.size(); ++i) {
    facts[i].text = flags.texts[i];
    if (i > 0) facts[i].supersedes.clear();  // once is enough
    if (const Status valid = CheckFactInput(facts[i]); !valid)
      return one ? tl::unexpected<Error>(valid.error()) : Wrap(valid.error(), fmt::format("fact {}", i + 1));
  }
  return facts;
}

const char* OutcomeName(AddOutcome outcome) {
  switch (outcome) {
    case AddOutcome::kAdded:
      return "added";
    case AddOutcome::kDuplicate:
      return "duplicate";
    case AddOutcome::kIdTaken:
      return "id_taken";
    case AddOutcome::kForgotten:
      return "forgotten";
  }
  return "unknown";
}

Result<int> RunRemember(const RememberFlags& flags) {
  TRY_ASSIGN(const std::vector<FactInput> facts, Gather(flags));
  TRY_ASSIGN(const OpenedMemory opened, OpenMemory(flags.memory, "remember", MemoryUse::kAdd));
  TRY_ASSIGN(const AddResult result,
             opened.memory->Remember(flags.memory.name_space, facts, {.idempotency_key = flags.idempotency_key}));
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  size_t taken = 0;
  for (const AddedFact& fact : result.facts) {
    if (fact.outcome == AddOutcome::kIdTaken) ++taken;
    if (flags.memory.json)
      json.push_back({{"id", fact.id}, {"outcome", OutcomeName(fact.outcome)}});
    else
      PrintOut(fmt::format("{:<10} {}\n", OutcomeName(fact.outcome), fact.id));
  }
  if (flags.memory.json) PrintJson({{"facts", std::move(json)}, {"replayed", result.replayed}});
  if (taken == 0) return 0;
  PrintError({ErrorCode::kConflict, fmt::format("{} not stored: another fact has the id; leave --id out, change it, or "
                                                "use `inferscale update`",
                                                taken == 1 ? "1 fact was" : fmt::format("{} facts were", taken))});
  return kIncomplete;
}

constexpr const char* kFooter = R"(Examples:
  inferscale remember "Nora adopted a grey cat" --date 2023-05-08
  inferscale remember "Nora lives in Ghent" --key home     # replaces the older fact with the key "home"
  inferscale remember "The code is 4711" --expires 2030-01-01T12:00:00Z --metadata '{"source": "chat"}'
  inferscale remember --facts facts.jsonl                  # all of them or none; - reads standard input

Each text is one fact, stored and searchable when the command returns. It prints the ids: "added"; "duplicate", when a
fact with this text and date is there already (its id is printed, nothing changed); "id_taken", when another fact has
the id (exit status 2). Lines of --facts are those of `inferscale import`.)";

}  // namespace

void AddRememberCommand(CLI::App& app, int* status) {
  auto flags = std::make_shared<RememberFlags>();
  CLI::App* remember = app.add_subcommand("remember", "Store facts");
  remember->add_option("--facts", flags->facts_path, "Facts, JSON Lines, instead of texts")->type_name("F.jsonl");
  const auto add = [&](const std::string& name, auto& value, const std::string& help, const char* type) {
    return remember->add_option(name, value, help)->type_name(type);
  };
  add("TEXT", flags->texts, "What to remember", "");
  add("--date", flags->date, "Day of the event", "YYYY-MM-DD");
  add("--id", flags->id, "Id of the fact; else one is made", "ID");
  add("--metadata", flags->metadata, "A JSON object, to filter by", "JSON");
  add("--expires", flags->expires, "From then on it is not found; a day means its first moment, UTC", "INSTANT");
  add("--key", flags->key, "Replaces the fact that has the same key", "KEY");
  add("--supersedes", flags->supersedes, "Replaces the fact with this id", "ID")->expected(1)->take_all();
  add("--turn", flags->turn, "Id of the turn it comes from", "ID");
  add("--user-id", flags->scope.user_id, "To filter by", "ID");
  add("--agent-id", flags->scope.agent_id, "To filter by", "ID");
  add("--run-id", flags->scope.run_id, "To filter by", "ID");
  add("--app-id", flags->scope.app_id, "To filter by", "ID");
  remember
      ->add_option("--idempotency-key", flags->idempotency_key,
                   "The same key and facts again within a day change nothing")
      ->type_name("KEY");
  AddMemoryFlags(*remember, flags->memory);
  AddEmbedFlag(*remember, flags->memory);
  AddBudgetFlags(*remember, flags->memory);
  remember->footer(kFooter);
  OnCommand(*remember, status, [flags] { return RunRemember(*flags); });
}

}  // namespace inferscale
