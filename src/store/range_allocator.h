// Hands out ranges of [0, size): best fit, neighbours joined when they are given back. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace inferscale {

class RangeAllocator {
 public:
  explicit RangeAllocator(uint64_t size);

  // The offset of a range: in the smallest free one that holds it, at the lowest place among equals. bytes > 0.
  std::optional<uint64_t> Take(uint64_t bytes);
  // A range as Take gave it.
  void Give(uint64_t offset, uint64_t bytes);

  uint64_t free_bytes() const { return free_bytes_; }
  uint64_t largest() const { return by_size_.empty() ? 0 : by_size_.rbegin()->first; }

 private:
  void Insert(uint64_t offset, uint64_t bytes);
  void Erase(std::map<uint64_t, uint64_t>::iterator range);

  std::map<uint64_t, uint64_t> by_offset_;           // free ranges: offset -> bytes
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // the same: (bytes, offset)
  uint64_t free_bytes_ = 0;
};

}  // namespace inferscale
