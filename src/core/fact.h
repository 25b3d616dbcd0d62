// A fact and a turn, as applications hand them over. Text is the truth; everything else is derived from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/date.h"

namespace inferscale {

// What the model and the embedder see of a fact: "(8 May 2023) text\n", or "text\n" without a date. Line breaks inside
// the text become spaces, so that one fact is one line.
std::string FactPromptText(std::string_view text, const std::optional<Date>& date);
// Of a turn: "speaker: text\n", or "text\n".
std::string TurnPromptText(std::string_view speaker, std::string_view text);

struct Fact {
  std::string id;
  uint32_t version = 1;
  std::string text;
  std::optional<Date> date;
  std::string turn;      // id of its source turn, or empty
  // A text over limits::kFactPartTokens is split into linked parts, each a fact of its own with id "ID#1", "ID#2", …
  std::string part_of;   // the id the application knows, when this is a part; else empty

  std::string PromptText() const { return FactPromptText(text, date); }
};

// One message of a source conversation.
struct Turn {
  std::string id;
  std::string speaker;
  std::string text;
  std::optional<Date> date;

  std::string PromptText() const { return TurnPromptText(speaker, text); }
};

// Sorts by (event time, arrival). A fact without a date happened when it arrived: in a file, on the day of the nearest
// dated fact before it (facts before the first dated one come first).
void SortByEventTime(std::vector<Fact>& facts);

}  // namespace inferscale
