// Finds which of a fixed set of strings occur in a text: a byte trie, walked from every position. The strings are a
// vocabulary's special tokens (a few dozen to 6,400 of at most some 40 bytes), so a walk ends after a few steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace inferscale {

class TextMatcher {
 public:
  struct Match {
    size_t bytes = 0;   // 0: no match
    int32_t value = 0;  // what Add was given
  };

  TextMatcher();

  // Empty patterns are ignored; a repeated one keeps its first value.
  void Add(std::string_view pattern, int32_t value);

  // The longest pattern that starts exactly at text[at]. Thread-safe once all patterns are added.
  Match LongestAt(std::string_view text, size_t at) const;

  bool empty() const { return values_.size() == 1; }

 private:
  static uint64_t EdgeKey(uint32_t node, unsigned char byte) { return uint64_t{node} << 8 | byte; }

  static constexpr int32_t kNoValue = -1;
  std::unordered_map<uint64_t, uint32_t> edges_;  // (node, byte) -> node
  std::vector<int32_t> values_;                   // [nodes] kNoValue: no pattern ends here
  bool starts_[256] = {};                         // bytes that some pattern starts with: most positions end here
};

}  // namespace inferscale
