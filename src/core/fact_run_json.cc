// The book's JSON: {"version":1,"run_facts":20,"run_tokens":1024,"runs":[{"anchor":[fact…],"members":[fact…],
// "anchor_chosen":20,"closed":true,"side":false}]}, a fact as ["id",version,"digest",tokens] to keep it short.
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "base/limits.h"
#include "core/fact_run.h"

namespace inferscale {

namespace {

using nlohmann::json;

tl::unexpected<Error> BadBook(const std::string& what) { return Fail(ErrorCode::kCorrupt, "fact runs: " + what); }

json FactsToJson(const std::vector<RunFact>& facts) {
  json list = json::array();
  for (const RunFact& fact : facts)
    list.push_back(json::array({fact.id, fact.version, fact.digest.Hex(), fact.tokens}));
  return list;
}

std::optional<uint32_t> GetU32(const json& value) {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) return std::nullopt;
  return value.get<uint32_t>();
}

Result<RunFact> ParseFact(const json& item) {
  if (!item.is_array() || item.size() != 4 || !item[0].is_string() || !item[2].is_string())
    return BadBook("a fact is not [id, version, digest, tokens]");
  RunFact fact;
  fact.id = item[0].get<std::string>();
  if (fact.id.empty() || fact.id.size() > limits::kIdBytes) return BadBook("an id is empty or too long");
  const auto digest = Hash128::FromHex(item[2].get_ref<const std::string&>());
  const auto version = GetU32(item[1]), tokens = GetU32(item[3]);
  if (!digest || !version || !tokens) return BadBook("a version, digest or token count is malformed");
  fact.version = *version;
  fact.digest = *digest;
  fact.tokens = *tokens;
  return fact;
}

// A list of at most run_facts facts and run_tokens tokens; a longer fact may be alone where may_be_long.
Result<std::vector<RunFact>> ParseFacts(const json& run, const char* name, int run_facts, int run_tokens,
                                        bool may_be_long) {
  const auto list = run.find(name);
  if (list == run.end() || !list->is_array()) return BadBook(std::string(name) + " is not an array");
  if (list->size() > static_cast<size_t>(run_facts)) return BadBook(std::string(name) + " holds too many facts");
  std::vector<RunFact> facts;
  size_t tokens = 0;
  for (const json& item : *list) {
    TRY_ASSIGN(RunFact fact, ParseFact(item));
    tokens += fact.tokens;
    facts.push_back(std::move(fact));
  }
  if (tokens > static_cast<size_t>(run_tokens) && !(may_be_long && facts.size() == 1))
    return BadBook(std::string(name) + " holds too many tokens");
  return facts;
}

Result<bool> ParseBool(const json& run, const char* name) {
  const auto found = run.find(name);
  if (found == run.end() || !found->is_boolean()) return BadBook(std::string(name) + " is not true or false");
  return found->get<bool>();
}

Result<FactRun> ParseRun(const json& item, int run_facts, int run_tokens) {
  if (!item.is_object()) return BadBook("a run is not an object");
  FactRun run;
  TRY_ASSIGN(run.anchor, ParseFacts(item, "anchor", run_facts, run_tokens, false));
  TRY_ASSIGN(run.members, ParseFacts(item, "members", run_facts, run_tokens, true));
  TRY_ASSIGN(run.closed, ParseBool(item, "closed"));
  TRY_ASSIGN(run.side, ParseBool(item, "side"));
  const auto chosen = item.contains("anchor_chosen") ? GetU32(item["anchor_chosen"]) : std::nullopt;
  if (!chosen || *chosen > static_cast<uint32_t>(run_facts) || *chosen < run.anchor.size())
    return BadBook("anchor_chosen is missing or out of range");
  run.anchor_chosen = *chosen;
  if (run.members.empty()) return BadBook("a run has no members");
  if (!run.closed && (run.side || run.members.size() == static_cast<size_t>(run_facts)))
    return BadBook("a full run or a side run is open");
  return run;
}

}  // namespace

std::string RunBook::ToJson() const {
  json runs = json::array();
  for (const FactRun& run : runs_)
    runs.push_back({{"anchor", FactsToJson(run.anchor)},
                    {"members", FactsToJson(run.members)},
                    {"anchor_chosen", run.anchor_chosen},
                    {"closed", run.closed},
                    {"side", run.side}});
  const json book = {{"version", 1}, {"run_facts", run_facts_}, {"run_tokens", run_tokens_}, {"runs", std::move(runs)}};
  return book.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<RunBook> RunBook::FromJson(std::string_view text, int run_facts, int run_tokens) {
  if (text.size() > limits::kRunBookBytes) return Fail(ErrorCode::kTooLarge, "fact runs: the file is too large");
  const json book = json::parse(text, nullptr, false);  // no exceptions: a discarded value is not an object
  if (!book.is_object()) return BadBook("not a JSON object");
  if (!book.contains("version") || book["version"] != 1)
    return Fail(ErrorCode::kVersionUnsupported, "fact runs: the file's version is not known");
  if (!book.contains("run_facts") || book["run_facts"] != run_facts || !book.contains("run_tokens") ||
      book["run_tokens"] != run_tokens)
    return Fail(ErrorCode::kMismatch, "fact runs: the file was made with other run sizes");
  const auto runs = book.find("runs");
  if (runs == book.end() || !runs->is_array()) return BadBook("runs is not an array");
  RunBook parsed(run_facts, run_tokens);
  std::unordered_set<std::string> members;
  for (const json& item : *runs) {
    TRY_ASSIGN(FactRun run, ParseRun(item, run_facts, run_tokens));
    for (const RunFact& fact : run.members)
      if (!members.insert(fact.id).second) return BadBook("a fact is a member twice");
    parsed.runs_.push_back(std::move(run));
  }
  return parsed;
}

}  // namespace inferscale
