// Files for `inferscale import`, of any bytes: every fact that comes out keeps the limits, and written as `export` does
// it is read back as it was.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "app/fact_lines.h"
#include "base/limits.h"
#include "base/utf8.h"

namespace {

using inferscale::FactInput;
using inferscale::FactLine;
using inferscale::FactRow;

void Check(bool condition) {
  if (!condition) std::abort();
}

FactRow RowOf(const FactLine& line) {
  const FactInput& input = line.input;
  FactRow row;
  row.id = input.id.empty() ? "f" : input.id;
  row.text = input.text;
  row.date = input.date;
  row.order_day = input.order_day.value_or(inferscale::Date{2024, 2, 29});
  row.expires_us = input.expires_us;
  row.metadata = input.metadata;
  row.scope = input.scope;
  row.turn = input.turn;
  row.supersede_key = input.supersede_key;
  row.superseded_by = line.superseded_by;
  return row;
}

void CheckFact(const FactLine& line) {
  const FactInput& input = line.input;
  Check(line.line > 0 && !input.text.empty() && input.text.size() <= inferscale::limits::kFactBytes);
  Check(inferscale::IsValidUtf8(input.text) && input.text.find('\0') == std::string::npos);
  const FactRow row = RowOf(line);
  const std::string written = inferscale::ToLine(inferscale::FactToJson(row, input.supersedes));
  const auto again = inferscale::ParseFactLines(written, "w");
  Check(again && again->size() == 1);
  Check(RowOf(again->front()).order_day == (row.date ? inferscale::Date{2024, 2, 29} : row.order_day));
  Check(again->front().input.supersedes == input.supersedes);
  Check(inferscale::ToLine(inferscale::FactToJson(RowOf(again->front()), input.supersedes)).size() == written.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view content(reinterpret_cast<const char*>(data), size);
  if (const auto turns = inferscale::ParseTurnLines(content, "t"); turns)
    for (const auto& line : *turns) {
      Check(!line.turn.id.empty() && !line.turn.text.empty());
      inferscale::TurnRow row;
      row.id = line.turn.id;
      row.ordinal = line.turn.ordinal.value_or(0);
      row.speaker = line.turn.speaker;
      row.text = line.turn.text;
      row.date = line.turn.date;
      Check(inferscale::ParseTurnLines(inferscale::ToLine(inferscale::TurnToJson(row)), "w").has_value());
    }
  const auto facts = inferscale::ParseFactLines(content, "f");
  if (!facts) {
    Check(facts.error().message.starts_with("f"));
    return 0;
  }
  for (const FactLine& line : *facts) CheckFact(line);
  return 0;
}
