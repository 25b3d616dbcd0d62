#include "app/unknown_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

#include "app/console.h"
#include "app/terminal_text.h"

namespace inferscale {

namespace {

constexpr size_t kShown = 8;      // keys
constexpr size_t kKeyBytes = 64;  // of each

template <class Line>
void Warn(std::span<const Line> lines, std::string_view name) {
  std::set<std::string> keys;
  size_t count = 0;
  for (const Line& line : lines) {
    if (line.unknown.empty()) continue;
    ++count;
    for (const std::string& key : line.unknown)
      if (keys.size() <= kShown) keys.insert(ForTerminal(key.substr(0, kKeyBytes)));
  }
  if (count == 0) return;
  const bool more = keys.size() > kShown;
  if (more) keys.erase(std::prev(keys.end()));
  PrintWarning(
      fmt::format("{}: {} with keys that are not kept: {}{}. `inferscale import --help` lists those that are; "
                  "put your own into \"metadata\"",
                  name, Counted(count, "line"), fmt::join(keys, ", "), more ? ", …" : ""));
}

}  // namespace

void WarnOfUnknownKeys(std::span<const FactLine> lines, std::string_view name) { Warn(lines, name); }
void WarnOfUnknownKeys(std::span<const TurnLine> lines, std::string_view name) { Warn(lines, name); }

}  // namespace inferscale
