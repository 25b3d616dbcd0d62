#include "core/strict_json.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

namespace {

using nlohmann::json;

// What the parser says without its frame and without the input it quotes: a fact's text belongs into no message.
std::string ParserComplaint(const json::parse_error& error) {
  std::string what = error.what();
  if (const size_t dash = what.find(" - "); dash != std::string::npos) what.erase(0, dash + 3);
  if (const size_t quoted = what.find("; last read"); quoted != std::string::npos) what.erase(quoted);
  return what;
}

// Hears of every key while the parser works.
class Keys {
 public:
  void Hear(json::parse_event_t event, const json& parsed) {
    if (event == json::parse_event_t::object_start) open_.emplace_back();
    if (event == json::parse_event_t::object_end) open_.pop_back();
    if (event != json::parse_event_t::key) return;
    const auto& key = parsed.get_ref<const std::string&>();
    if (!open_.back().insert(key).second && !has_repeated_) repeated_ = key, has_repeated_ = true;
  }
  bool has_repeated() const { return has_repeated_; }
  const std::string& repeated() const { return repeated_; }

 private:
  std::vector<std::set<std::string>> open_;
  std::string repeated_;
  bool has_repeated_ = false;
};

}  // namespace

Result<json> ParseStrictJson(std::string_view text) {
  Keys keys;
  try {
    int deepest = 0;
    json value = json::parse(text, [&](int depth, json::parse_event_t event, const json& parsed) {
      deepest = std::max(deepest, depth);
      keys.Hear(event, parsed);
      return true;
    });
    if (deepest > limits::kJsonNesting)
      return Fail(ErrorCode::kTooLarge, "JSON with lists and objects nested more than " +
                                            std::to_string(limits::kJsonNesting) + " deep: make it flatter");
    if (!keys.has_repeated()) return value;
  } catch (const json::parse_error& error) {
    return Fail(ErrorCode::kInvalidJson,
                "not valid JSON at byte " + std::to_string(error.byte) + " (" + ParserComplaint(error) + ")");
  } catch (const json::exception&) {  // out_of_range, the only other one
    return Fail(ErrorCode::kInvalidJson, "a number is too large: put it in double quotes or make it smaller");
  }
  constexpr size_t kShownBytes = 64;
  const std::string& key = keys.repeated();
  return Fail(ErrorCode::kInvalidJson, "the key \"" + key.substr(0, FloorToCodePoint(key, kShownBytes)) +
                                           "\" is there twice in one object: leave one of them out");
}

}  // namespace inferscale
