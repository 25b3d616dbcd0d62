#include "engine/llama/text_matcher.h"

#include "base/assert.h"

namespace inferscale {

TextMatcher::TextMatcher() : values_(1, kNoValue) {}

void TextMatcher::Add(std::string_view pattern, int32_t value) {
  INFERSCALE_ASSERT(value >= 0);
  if (pattern.empty()) return;
  starts_[static_cast<unsigned char>(pattern[0])] = true;
  uint32_t node = 0;
  for (const char c : pattern) {
    const auto next = static_cast<uint32_t>(values_.size());
    const auto [edge, is_new] = edges_.try_emplace(EdgeKey(node, static_cast<unsigned char>(c)), next);
    if (is_new) values_.push_back(kNoValue);
    node = edge->second;
  }
  if (values_[node] == kNoValue) values_[node] = value;
}

TextMatcher::Match TextMatcher::LongestAt(std::string_view text, size_t at) const {
  Match longest;
  if (at >= text.size() || !starts_[static_cast<unsigned char>(text[at])]) return longest;
  uint32_t node = 0;
  for (size_t i = at; i < text.size(); ++i) {
    const auto edge = edges_.find(EdgeKey(node, static_cast<unsigned char>(text[i])));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (values_[node] != kNoValue) longest = {i + 1 - at, values_[node]};
  }
  return longest;
}

}  // namespace inferscale
