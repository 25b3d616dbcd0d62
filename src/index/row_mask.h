// A set of rows of an index, one bit each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace inferscale {

class RowMask {
 public:
  RowMask() = default;
  RowMask(size_t rows, bool value);

  size_t size() const { return rows_; }
  // Rows beyond the end are in no mask.
  bool Test(size_t row) const { return row < rows_ && (words_[row / 64] >> (row % 64) & 1) != 0; }
  void Set(size_t row, bool value = true);  // row < size()
  void PushBack(bool value);
  size_t Count() const;  // of rows that are in it

  // Bits of rows [64 * i, 64 * i + 64), the lowest first; 0 beyond the end.
  uint64_t Word(size_t i) const { return i < words_.size() ? words_[i] : 0; }

 private:
  size_t rows_ = 0;
  std::vector<uint64_t> words_;  // bits beyond rows_ are 0
};

}  // namespace inferscale
