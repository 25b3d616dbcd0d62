#include "memory/fact_file.h"

#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "base/hash.h"
#include "base/limits.h"
#include "memory/jsonl.h"

namespace inferscale {

namespace {

using nlohmann::json;

Result<std::string> ParseText(const json& object) {
  TRY_ASSIGN(std::string text, RequiredString(object, "text"));
  if (text.find_first_not_of(" \t\r\n\v\f") == std::string::npos)
    return Fail(ErrorCode::kInvalidArgument, "\"text\" is empty: write something, or remove the line");
  if (text.size() > limits::kFactBytes)
    return Fail(ErrorCode::kTooLarge, "\"text\" has " + std::to_string(text.size()) + " bytes, more than " +
                                          std::to_string(limits::kFactBytes) + ": split it into several facts");
  return text;
}

Status CheckId(std::string_view id, const char* key) {
  if (id.empty())
    return Fail(ErrorCode::kInvalidArgument, "\"" + std::string(key) + "\" is empty: leave it out or give it a value");
  if (id.size() > limits::kGivenIdBytes)
    return Fail(ErrorCode::kTooLarge, "\"" + std::string(key) + "\" has " + std::to_string(id.size()) +
                                          " bytes, more than " + std::to_string(limits::kGivenIdBytes));
  return {};
}

// Which line an id stands on; says no to the second.
class Ids {
 public:
  Status Add(const std::string& id, size_t line) {
    const auto [found, added] = lines_.emplace(id, line);
    if (added) return {};
    return Fail(ErrorCode::kInvalidArgument, "the id \"" + id + "\" stands on line " + std::to_string(found->second) +
                                                 " too: ids must be distinct, change or remove one");
  }

 private:
  std::unordered_map<std::string, size_t> lines_;
};

Result<Turn> ParseTurn(const json& object) {
  Turn turn;
  TRY_ASSIGN(turn.id, RequiredString(object, "id"));
  TRY(CheckId(turn.id, "id"));
  TRY_ASSIGN(turn.speaker, RequiredString(object, "speaker"));
  if (turn.speaker.size() > limits::kIdBytes)
    return Fail(ErrorCode::kTooLarge, "\"speaker\" has more than " + std::to_string(limits::kIdBytes) + " bytes");
  TRY_ASSIGN(turn.text, ParseText(object));
  TRY_ASSIGN(turn.date, OptionalDate(object));
  return turn;
}

class FactReader {
 public:
  Status Add(size_t line, const json& object) {
    Fact fact;
    TRY_ASSIGN(fact.text, ParseText(object));
    TRY_ASSIGN(fact.date, OptionalDate(object));
    TRY_ASSIGN(const std::optional<std::string> turn, OptionalString(object, "turn"));
    if (turn) {
      TRY(CheckId(*turn, "turn"));
      fact.turn = *turn;
    }
    TRY_ASSIGN(const std::optional<std::string> id, OptionalString(object, "id"));
    if (id) {
      TRY(CheckId(*id, "id"));
      fact.id = *id;
    } else {
      const Hash128 digest = Hasher().Str(fact.text).Str(fact.date ? fact.date->Iso() : "").Finish();
      if (!unnamed_.emplace(digest, line).second) {
        ++repeated_;
        return {};
      }
      fact.id = "f" + digest.Hex().substr(0, 16);
    }
    TRY(ids_.Add(fact.id, line));
    if (file_.facts.size() == limits::kFactsPerFile)
      return Fail(ErrorCode::kTooLarge,
                  "the file has more than " + std::to_string(limits::kFactsPerFile) + " facts: use several files");
    file_.facts.push_back(std::move(fact));
    file_.lines.push_back(line);
    return {};
  }

  FactFile Finish() {
    if (repeated_ == 1) file_.notes.push_back("1 fact was left out: its text and date stand in the file already");
    if (repeated_ > 1)
      file_.notes.push_back(std::to_string(repeated_) +
                            " facts were left out: their text and date stand in the file already");
    return std::move(file_);
  }

 private:
  FactFile file_;
  Ids ids_;
  std::unordered_map<Hash128, size_t> unnamed_;  // facts without an id of their own, by text and date
  size_t repeated_ = 0;
};

}  // namespace

Result<FactFile> ParseFactFile(std::string_view content, std::string_view name) {
  FactReader reader;
  const auto add = [&](size_t line, const json& object) { return reader.Add(line, object); };
  TRY_ASSIGN(const size_t objects, ForEachJsonLine(content, name, add));
  if (objects == 0)
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) + R"( holds no facts: write one like {"text": "Nora has a cat"} on each line)");
  FactFile file = reader.Finish();
  for (std::string& note : file.notes) note = std::string(name) + ": " + note;
  return file;
}

Result<std::vector<Turn>> ParseTurnFile(std::string_view content, std::string_view name) {
  std::vector<Turn> turns;
  Ids ids;
  const auto add = [&](size_t line, const json& object) -> Status {
    TRY_ASSIGN(Turn turn, ParseTurn(object));
    TRY(ids.Add(turn.id, line));
    if (turns.size() == limits::kFactsPerFile)
      return Fail(ErrorCode::kTooLarge, "the file has more than " + std::to_string(limits::kFactsPerFile) + " turns");
    turns.push_back(std::move(turn));
    return {};
  };
  TRY_ASSIGN(const size_t objects, ForEachJsonLine(content, name, add));
  if (objects == 0)
    return Fail(ErrorCode::kInvalidArgument,
                std::string(name) +
                    R"( holds no turns: write one like {"id": "t1", "speaker": "Nora", "text": "Hi"} on each line)");
  return turns;
}

Status CheckTurns(const FactFile& file, std::string_view name, std::span<const Turn> turns,
                  std::string_view turns_name) {
  std::unordered_set<std::string_view> known;
  for (const Turn& turn : turns) known.insert(turn.id);
  for (size_t i = 0; i < file.facts.size(); ++i) {
    const std::string& turn = file.facts[i].turn;
    if (turn.empty() || known.contains(turn)) continue;
    return Fail(ErrorCode::kInvalidArgument, std::string(name) + ": line " + std::to_string(file.lines[i]) +
                                                 ": there is no turn \"" + turn + "\" in " + std::string(turns_name));
  }
  return {};
}

}  // namespace inferscale
