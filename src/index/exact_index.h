// Exact vector search: cosine over unit vectors, the whole set, every time. A namespace has hundreds to thousands of
// facts, which a CPU scans in microseconds; nothing approximate is worth its errors there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/error.h"
#include "index/row_mask.h"

namespace inferscale {

struct SearchHit {
  uint32_t row = 0;    // in order of Add
  float score = 0.0f;  // inner product: the cosine, for unit vectors
};

class ExactIndex {
 public:
  explicit ExactIndex(uint32_t dim);  // 1..limits::kEmbedDimMax
  ~ExactIndex();
  ExactIndex(ExactIndex&&) noexcept;
  ExactIndex& operator=(ExactIndex&&) noexcept;

  uint32_t dim() const { return dim_; }
  size_t size() const { return alive_.size(); }  // rows, removed ones too
  size_t live() const { return live_; }
  size_t bytes() const;  // of memory for vectors

  // vector: [dim] f32, unit length (the caller normalises); its row is size() before the call. Rows never move while
  // others are added, so a vector is at one place in memory only. kInvalidArgument: wrong length or a non-finite
  // element. kTooLarge.
  Status Add(std::span<const float> vector);
  // [dim]; zeros for a removed row. row < size(). Valid until Compact.
  std::span<const float> Vector(size_t row) const;
  bool IsLive(size_t row) const { return alive_.Test(row); }

  // Overwrites the row's bytes with zeros; it is never found again, and its number is not given to another vector.
  // False: it was removed before. row < size().
  bool Remove(size_t row);

  // Drops removed rows, the others keep their order. Returns the old number of each row. Worth its copy when half of
  // the rows are gone: then its cost is below that of the removals before it. The old places are zeroed.
  std::vector<uint32_t> Compact();

  // The min(k, live, limit) best of the live rows of [0, limit) that are in `allowed` (null: all), best first; ties:
  // the smaller row first. query: [dim] f32. kInvalidArgument as for Add. Thread-safe between calls that change the
  // index.
  Result<std::vector<SearchHit>> Search(std::span<const float> query, size_t k, size_t limit = SIZE_MAX,
                                        const RowMask* allowed = nullptr) const;
  // [rows] Scores of these rows, the very same as Search gives them. kInvalidArgument also for a row >= size().
  Result<std::vector<float>> Scores(std::span<const float> query, std::span<const uint32_t> rows) const;

 private:
  struct FreeVectors {
    size_t used = 0;                        // elements from the chunk's beginning on
    void operator()(float* vectors) const;  // zeroes those first
  };
  using Chunk = std::unique_ptr<float[], FreeVectors>;

  float* RowAt(size_t row) const;

  uint32_t dim_;
  std::vector<Chunk> chunks_;  // chunk i: rows [kFirst * (2^i - 1), kFirst * (2^(i + 1) - 1))
  RowMask alive_;
  size_t live_ = 0;
};

}  // namespace inferscale
