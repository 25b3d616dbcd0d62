#include "app/fact_lines.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/limits.h"
#include "core/instant.h"
#include "memory/jsonl.h"

namespace inferscale {

namespace {

using nlohmann::json;

// A string that is there has something in it; "" when it is not there.
Result<std::string> GivenString(const json& object, const char* key) {
  TRY_ASSIGN(std::optional<std::string> value, OptionalString(object, key));
  if (value && value->empty())
    return Fail(ErrorCode::kInvalidArgument, fmt::format("\"{}\" is empty: leave it out or give it a value", key));
  return value.value_or("");
}

Result<std::string> Metadata(const json& object) {
  const auto found = object.find("metadata");
  if (found == object.end() || found->is_null()) return std::string();
  if (!found->is_object())
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("\"metadata\" is {}, not an object: write one like {{\"source\": \"chat\"}}", found->type_name()));
  return found->dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<std::optional<Micros>> Expiry(const json& object) {
  TRY_ASSIGN(const std::optional<std::string> text, OptionalString(object, "expires"));
  if (!text) return std::optional<Micros>();
  Result<Micros> instant = ParseInstant(*text);
  if (!instant) return Wrap(std::move(instant).error(), "\"expires\"");
  return std::optional(*instant);
}

Result<std::optional<Date>> OrderDay(const json& object) {
  TRY_ASSIGN(const std::optional<std::string> text, OptionalString(object, "order_day"));
  if (!text) return std::optional<Date>();
  Result<Date> day = ParseDate(*text);
  if (!day) return Wrap(std::move(day).error(), "\"order_day\"");
  return std::optional(*day);
}

Result<std::vector<std::string>> Supersedes(const json& object) {
  std::vector<std::string> ids;
  const auto found = object.find("supersedes");
  if (found == object.end() || found->is_null()) return ids;
  const bool strings =
      found->is_array() && std::all_of(found->begin(), found->end(), [](const json& id) { return id.is_string(); });
  if (!strings)
    return Fail(ErrorCode::kInvalidArgument, "\"supersedes\" is not a list of ids: write it like [\"f1\", \"f2\"]");
  if (found->size() > limits::kSupersedesPerFact)
    return Fail(ErrorCode::kTooLarge,
                fmt::format("\"supersedes\" has {} ids, more than {}", found->size(), limits::kSupersedesPerFact));
  for (const json& id : *found) ids.push_back(id.get<std::string>());
  return ids;
}

constexpr std::string_view kFactKeys[] = {"text",     "id",      "date",          "order_day",    "turn",
                                          "metadata", "expires", "supersede_key", "supersedes",   "user_id",
                                          "agent_id", "run_id",  "app_id",        "superseded_by"};
constexpr std::string_view kTurnKeys[] = {"id", "speaker", "text", "date", "ordinal"};

std::vector<std::string> UnknownKeys(const json& object, std::span<const std::string_view> known) {
  std::vector<std::string> unknown;
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end()) unknown.push_back(key);
  return unknown;
}

Result<FactLine> ParseFact(size_t line, const json& object) {
  FactLine fact;
  fact.line = line;
  fact.unknown = UnknownKeys(object, kFactKeys);
  FactInput& input = fact.input;
  TRY_ASSIGN(input.text, RequiredString(object, "text"));
  TRY_ASSIGN(input.id, GivenString(object, "id"));
  TRY_ASSIGN(input.date, OptionalDate(object));
  TRY_ASSIGN(input.order_day, OrderDay(object));
  TRY_ASSIGN(input.turn, GivenString(object, "turn"));
  TRY_ASSIGN(input.metadata, Metadata(object));
  TRY_ASSIGN(input.supersede_key, GivenString(object, "supersede_key"));
  TRY_ASSIGN(input.supersedes, Supersedes(object));
  TRY_ASSIGN(input.scope.user_id, GivenString(object, "user_id"));
  TRY_ASSIGN(input.scope.agent_id, GivenString(object, "agent_id"));
  TRY_ASSIGN(input.scope.run_id, GivenString(object, "run_id"));
  TRY_ASSIGN(input.scope.app_id, GivenString(object, "app_id"));
  TRY_ASSIGN(fact.superseded_by, GivenString(object, "superseded_by"));
  if (!fact.superseded_by.empty()) TRY(CheckGivenId(fact.superseded_by, "superseded_by"));
  TRY(CheckFactInput(input));  // without its expiry, which may be over: such a line is no mistake
  TRY_ASSIGN(input.expires_us, Expiry(object));
  return fact;
}

Result<std::optional<uint64_t>> Ordinal(const json& object) {
  const auto found = object.find("ordinal");
  if (found == object.end() || found->is_null()) return std::optional<uint64_t>();
  if (!found->is_number_unsigned() || found->get<uint64_t>() > limits::kTurnOrdinal)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("\"ordinal\" is no whole number from 0 to {}", limits::kTurnOrdinal));
  return std::optional(found->get<uint64_t>());
}

Result<TurnLine> ParseTurn(size_t line, const json& object) {
  TurnLine turn{line, {}, UnknownKeys(object, kTurnKeys)};
  TRY_ASSIGN(turn.turn.id, RequiredString(object, "id"));
  TRY(CheckGivenId(turn.turn.id, "id"));
  TRY_ASSIGN(turn.turn.speaker, GivenString(object, "speaker"));
  if (!turn.turn.speaker.empty()) TRY(CheckGivenId(turn.turn.speaker, "speaker"));
  TRY_ASSIGN(turn.turn.text, RequiredString(object, "text"));
  TRY(CheckFactText(turn.turn.text));
  TRY_ASSIGN(turn.turn.date, OptionalDate(object));
  TRY_ASSIGN(turn.turn.ordinal, Ordinal(object));
  return turn;
}

template <class Line>
Result<std::vector<Line>> ParseLines(std::string_view content, std::string_view name, const char* what,
                                     Result<Line> (*parse)(size_t, const json&)) {
  std::vector<Line> lines;
  const auto add = [&](size_t number, const json& object) -> Status {
    if (lines.size() == limits::kFactsPerFile)
      return Fail(ErrorCode::kTooLarge,
                  fmt::format("the file has more than {} {}: use several files", limits::kFactsPerFile, what));
    TRY_ASSIGN(Line line, parse(number, object));
    lines.push_back(std::move(line));
    return {};
  };
  TRY_ASSIGN(const size_t objects, ForEachJsonLine(content, name, add));
  (void)objects;
  return lines;
}

void OrderByPlace(std::vector<FactLine>& facts) {
  std::optional<Date> last;
  for (const FactLine& fact : facts)
    if (fact.input.date && (!last || *fact.input.date < *last)) last = fact.input.date;
  for (FactLine& fact : facts) {
    if (fact.input.date)
      last = fact.input.date;
    else if (!fact.input.order_day)
      fact.input.order_day = last;
  }
}

}  // namespace

Result<std::vector<FactLine>> ParseFactLines(std::string_view content, std::string_view name) {
  TRY_ASSIGN(std::vector<FactLine> facts, ParseLines<FactLine>(content, name, "facts", ParseFact));
  OrderByPlace(facts);
  return facts;
}

Result<std::vector<TurnLine>> ParseTurnLines(std::string_view content, std::string_view name) {
  return ParseLines<TurnLine>(content, name, "turns", ParseTurn);
}

nlohmann::ordered_json FactToJson(const FactRow& fact, std::span<const std::string> supersedes) {
  nlohmann::ordered_json json{{"id", fact.id}, {"text", fact.text}};
  const auto put = [&json](const char* key, const std::string& value) {
    if (!value.empty()) json[key] = value;
  };
  if (fact.date)
    json["date"] = fact.date->Iso();
  else
    json["order_day"] = fact.order_day.Iso();
  put("turn", fact.turn);
  if (!fact.metadata.empty()) {
    nlohmann::ordered_json metadata = nlohmann::ordered_json::parse(fact.metadata, nullptr, false);
    if (metadata.is_object()) json["metadata"] = std::move(metadata);
  }
  if (fact.expires_us) json["expires"] = InstantText(*fact.expires_us);
  put("supersede_key", fact.supersede_key);
  if (!supersedes.empty()) json["supersedes"] = supersedes;
  put("superseded_by", fact.superseded_by);
  put("user_id", fact.scope.user_id);
  put("agent_id", fact.scope.agent_id);
  put("run_id", fact.scope.run_id);
  put("app_id", fact.scope.app_id);
  return json;
}

nlohmann::ordered_json TurnToJson(const TurnRow& turn) {
  nlohmann::ordered_json json{{"id", turn.id}, {"ordinal", turn.ordinal}};
  if (!turn.speaker.empty()) json["speaker"] = turn.speaker;
  json["text"] = turn.text;
  if (turn.date) json["date"] = turn.date->Iso();
  return json;
}

std::string ToLine(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string InstantText(Micros instant) {
  instant = std::clamp<Micros>(instant, kFirstInstant, kLastInstant);
  const Date day = DayOf(instant);
  const Micros of_day = instant - DayRange(day).begin_us, seconds = of_day / 1'000'000, rest = of_day % 1'000'000;
  std::string text = fmt::format("{}T{:02}:{:02}:{:02}", day.Iso(), seconds / 3600, seconds / 60 % 60, seconds % 60);
  return text + (rest != 0 ? fmt::format(".{:06}Z", rest) : "Z");
}

Result<Micros> ParseInstant(std::string_view text) {
  TRY_ASSIGN(const TimeRange range, ParseTime(text));
  return range.begin_us;
}

}  // namespace inferscale
