// Facts and turns of the durable memory as JSON Lines, in and out: what `export` writes, `import` reads back.
//
// Facts:  {"text": "…", "date": "2023-05-08", "id": "f1", "turn": "t7", "metadata": {"source": "chat"},
//          "expires": "2030-01-01T00:00:00Z", "supersede_key": "home", "supersedes": ["f0"], "user_id": "alex",
//          "agent_id": "…", "run_id": "…", "app_id": "…"}
//         Only text is required. Written by export alone: "order_day", the day that orders an undated fact, and
//         "superseded_by", the id of a fact further up that replaced this one.
// Turns:  {"id": "t7", "speaker": "Nora", "text": "…", "date": "2023-05-08", "ordinal": 7}; id and text are required
// Other keys are not kept (unknown_keys.h says so). A byte order mark, CR LF line ends and blank lines are fine.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "memory/fact_input.h"

namespace inferscale {

struct FactLine {
  size_t line = 0;  // from 1
  FactInput input;
  std::string superseded_by;
  std::vector<std::string> unknown;  // keys that are not kept
};

struct TurnLine {
  size_t line = 0;
  NewTurn turn;
  std::vector<std::string> unknown;
};

// Every fact that comes out passes CheckFactInput, but that its expiry may be over. A fact without a date is ordered by
// its place: its day is that of the nearest dated fact before it, or the file's earliest; none when no fact has a date.
// Errors name the file and the line. kInvalidArgument, kInvalidUtf8, kInvalidJson, kInvalidDate, kTooLarge.
Result<std::vector<FactLine>> ParseFactLines(std::string_view content, std::string_view name);
Result<std::vector<TurnLine>> ParseTurnLines(std::string_view content, std::string_view name);

// supersedes: ids of facts that this one replaced and that stand further up.
nlohmann::ordered_json FactToJson(const FactRow& fact, std::span<const std::string> supersedes = {});
nlohmann::ordered_json TurnToJson(const TurnRow& turn);
// One line with its end. What is stored is UTF-8; were it damaged, the line is valid all the same.
std::string ToLine(const nlohmann::ordered_json& json);

// "2030-01-01T00:00:00Z", with a fraction where there is one: what ParseTime reads back.
std::string InstantText(Micros instant);
// A point in time as a person gives it; a day stands for its first moment (UTC). kInvalidDate.
Result<Micros> ParseInstant(std::string_view text);

}  // namespace inferscale
