#include "store/range_allocator.h"

#include <iterator>

#include "base/assert.h"

namespace inferscale {

RangeAllocator::RangeAllocator(uint64_t size) {
  if (size > 0) Insert(0, size);
}

void RangeAllocator::Insert(uint64_t offset, uint64_t bytes) {
  by_offset_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
  free_bytes_ += bytes;
}

void RangeAllocator::Erase(std::map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  free_bytes_ -= range->second;
  by_offset_.erase(range);
}

std::optional<uint64_t> RangeAllocator::Take(uint64_t bytes) {
  INFERSCALE_ASSERT(bytes > 0);
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *fit;
  Erase(by_offset_.find(offset));
  if (size > bytes) Insert(offset + bytes, size - bytes);
  return offset;
}

void RangeAllocator::Give(uint64_t offset, uint64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  INFERSCALE_ASSERT(next == by_offset_.end() || offset + bytes <= next->first);
  if (next != by_offset_.begin()) {
    const auto before = std::prev(next);
    INFERSCALE_ASSERT(before->first + before->second <= offset);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      Erase(before);
    }
  }
  if (next != by_offset_.end() && offset + bytes == next->first) {
    bytes += next->second;
    Erase(next);
  }
  Insert(offset, bytes);
}

}  // namespace inferscale
