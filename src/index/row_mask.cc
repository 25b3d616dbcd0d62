#include "index/row_mask.h"

#include <bit>

#include "base/assert.h"

namespace inferscale {

RowMask::RowMask(size_t rows, bool value) : rows_(rows), words_((rows + 63) / 64, value ? ~uint64_t{0} : 0) {
  if (value && rows % 64 != 0) words_.back() = (uint64_t{1} << (rows % 64)) - 1;
}

void RowMask::Set(size_t row, bool value) {
  INFERSCALE_ASSERT(row < rows_);
  const uint64_t bit = uint64_t{1} << (row % 64);
  if (value) {
    words_[row / 64] |= bit;
  } else {
    words_[row / 64] &= ~bit;
  }
}

void RowMask::PushBack(bool value) {
  if (rows_ % 64 == 0) words_.push_back(0);
  ++rows_;
  if (value) Set(rows_ - 1);
}

size_t RowMask::Count() const {
  size_t count = 0;
  for (const uint64_t word : words_) count += static_cast<size_t>(std::popcount(word));
  return count;
}

}  // namespace inferscale
