// Exact vector search: cosine over unit vectors, the whole set, every time. A namespace has hundreds to thousands of
// facts, which a CPU scans in microseconds; nothing approximate is worth its errors there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"

namespace inferscale {

struct SearchHit {
  uint32_t row = 0;    // in order of Add
  float score = 0.0f;  // inner product: the cosine, for unit vectors
};

class ExactIndex {
 public:
  explicit ExactIndex(uint32_t dim);  // 1..limits::kEmbedDimMax

  uint32_t dim() const { return dim_; }
  size_t size() const { return vectors_.size() / dim_; }

  // vector: [dim] f32, unit length (the caller normalises). kInvalidArgument: wrong length or a non-finite element.
  Status Add(std::span<const float> vector);
  std::span<const float> Vector(size_t row) const { return {vectors_.data() + row * dim_, dim_}; }

  // The min(k, size, limit) best of rows [0, limit), best first; ties: the smaller row first. query: [dim] f32.
  // kInvalidArgument as for Add. Thread-safe between calls of Add.
  Result<std::vector<SearchHit>> Search(std::span<const float> query, size_t k, size_t limit = SIZE_MAX) const;

 private:
  uint32_t dim_;
  std::vector<float> vectors_;  // [size][dim]
};

}  // namespace inferscale
