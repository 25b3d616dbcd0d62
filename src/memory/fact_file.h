// Facts and turns from JSON Lines files. Every error names the file and the line, and says what to do.
//
// Facts:  {"text": "…", "date": "2023-05-08", "id": "f1", "turn": "t7"}; only text is required
// Turns:  {"id": "t7", "speaker": "Nora", "text": "…", "date": "2023-05-08"}; all but date are required
// Other keys are ignored. A byte order mark, CR LF line ends and blank lines are fine.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/fact.h"

namespace inferscale {

struct FactFile {
  std::vector<Fact> facts;         // in the file's order; at least one
  std::vector<size_t> lines;       // [facts] where each stands, from 1
  std::vector<std::string> notes;  // for people: how many repeated facts were left out
};

// A fact without an id gets one: "f" and 16 hex digits of the digest of its text and date, so that it keeps its id when
// other lines come and go. The same text with the same date and without an id is one fact, however often it stands
// there. The same id twice is an error. kInvalidArgument, kInvalidUtf8, kInvalidJson, kInvalidDate, kTooLarge. name: of
// the file, for messages.
Result<FactFile> ParseFactFile(std::string_view content, std::string_view name);

// Turns in the file's order, ids distinct; at least one.
Result<std::vector<Turn>> ParseTurnFile(std::string_view content, std::string_view name);

// Whether every turn that a fact names is there: kInvalidArgument names the file and the line of the first that is not.
Status CheckTurns(const FactFile& file, std::string_view name, std::span<const Turn> turns,
                  std::string_view turns_name);

// Replaces each fact of more than `limit` tokens by linked parts of at most `limit`: ids "ID#1", "ID#2", …, part_of
// "ID", everything else as the fact's. Cut at sentences; a sentence that is too long at words, a word at code points.
// Only white space at the cuts is lost. Counts each text a few times over, never quadratically. kInvalidArgument: a
// part's id is another fact's; kTooLarge: one code point has more tokens than the limit.
Result<std::vector<Fact>> SplitLongFacts(std::vector<Fact> facts,
                                         const std::function<size_t(std::string_view)>& count_tokens, size_t limit);

}  // namespace inferscale
