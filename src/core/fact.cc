#include "core/fact.h"

#include <algorithm>
#include <numeric>
#include <string_view>

namespace inferscale {

namespace {

// Bytes of the line break that starts at text[at], or 0: CR LF, LF, VT, FF, CR, U+0085, U+2028, U+2029.
size_t LineBreakBytes(std::string_view text, size_t at) {
  const std::string_view rest = text.substr(at);
  if (rest.starts_with("\r\n")) return 2;
  if (rest[0] >= '\n' && rest[0] <= '\r') return 1;
  if (rest.starts_with("\xC2\x85")) return 2;
  return rest.starts_with("\xE2\x80\xA8") || rest.starts_with("\xE2\x80\xA9") ? 3 : 0;
}

// One line, without white space at its ends: a prompt's facts end in exactly one line break each.
std::string OneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    if (const size_t bytes = LineBreakBytes(text, at); bytes > 0) {
      line += ' ';
      at += bytes;
    } else {
      line += text[at++];
    }
  }
  const size_t begin = line.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return line.substr(begin, line.find_last_not_of(" \t") - begin + 1);
}

}  // namespace

std::string FactPromptText(std::string_view text, const std::optional<Date>& date) {
  std::string line;
  if (date) line.append("(").append(date->Long()).append(") ");
  return line.append(OneLine(text)).append("\n");
}

std::string TurnPromptText(std::string_view speaker, std::string_view text) {
  std::string line = OneLine(speaker);
  if (!line.empty()) line += ": ";
  return line.append(OneLine(text)).append("\n");
}

void SortByEventTime(std::vector<Fact>& facts) {
  std::vector<Date> happened(facts.size());
  Date last{0, 0, 0};  // before every date: facts before the first dated one come first
  for (size_t i = 0; i < facts.size(); ++i) happened[i] = last = facts[i].date.value_or(last);
  std::vector<size_t> order(facts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return happened[a] < happened[b]; });
  std::vector<Fact> sorted;
  sorted.reserve(facts.size());
  for (const size_t i : order) sorted.push_back(std::move(facts[i]));
  facts = std::move(sorted);
}

}  // namespace inferscale
