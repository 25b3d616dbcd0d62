#include "index/exact_index.h"

#include <algorithm>
#include <array>
#include <new>
#include <string>

#include "base/assert.h"
#include "base/limits.h"
#include "kernels/cpu/dot.h"

namespace inferscale {

namespace {

// Scores per call of the kernel: 1 KiB of them stays in the first-level cache until they are looked at.
constexpr size_t kBlockRows = 256;

// Squared length up to which no score can overflow: |q.v| <= |q| |v| <= 1e36, and neither can a partial sum.
constexpr float kSquaredLengthMax = 1e36f;

bool IsBetter(const SearchHit& a, const SearchHit& b) {
  return a.score != b.score ? a.score > b.score : a.row < b.row;
}

Status CheckVector(std::span<const float> vector, uint32_t dim) {
  if (vector.size() != dim)
    return Fail(ErrorCode::kInvalidArgument, "the vector has " + std::to_string(vector.size()) +
                                                 " elements, the index holds vectors of " + std::to_string(dim));
  float squared = 0.0f;
  kernels::DotF32(vector.data(), vector.data(), 1, dim, &squared);
  if (!(squared <= kSquaredLengthMax))  // also false for NaN, and an infinite element makes an infinite sum
    return Fail(ErrorCode::kInvalidArgument, "the vector is not finite: a unit vector is expected");
  return {};
}

// The k best of rows offered in ascending order. Candidates gather in a buffer that is cut back to k when it is full:
// a constant cost per candidate for any k, where a heap would pay log k.
class Best {
 public:
  explicit Best(size_t k) : k_(k), capacity_(k + std::max(k, kBlockRows)) { hits_.reserve(capacity_); }

  void Offer(uint32_t row, float score) {
    if (cut_ && score <= worst_) return;  // an equal score on a later row loses to the k rows held
    hits_.push_back({row, score});
    if (hits_.size() == capacity_) Cut();
  }

  std::vector<SearchHit> Sorted() && {
    if (hits_.size() > k_) Cut();
    std::sort(hits_.begin(), hits_.end(), IsBetter);
    return std::move(hits_);
  }

 private:
  void Cut() {
    const auto last = hits_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
    std::nth_element(hits_.begin(), last, hits_.end(), IsBetter);
    hits_.resize(k_);
    worst_ = hits_.back().score;
    cut_ = true;
  }

  const size_t k_;         // >= 1
  const size_t capacity_;  // > k_
  std::vector<SearchHit> hits_;
  bool cut_ = false;     // then hits_ begins with the k_ best so far, and worst_ is the worst of them
  float worst_ = 0.0f;
};

}  // namespace

ExactIndex::ExactIndex(uint32_t dim) : dim_(dim) { INFERSCALE_ASSERT(dim >= 1 && dim <= limits::kEmbedDimMax); }

Status ExactIndex::Add(std::span<const float> vector) {
  TRY(CheckVector(vector, dim_));
  if (size() >= limits::kIndexRows)
    return Fail(ErrorCode::kTooLarge,
                "the index holds its limit of " + std::to_string(limits::kIndexRows) + " vectors");
  try {
    vectors_.insert(vectors_.end(), vector.begin(), vector.end());
  } catch (const std::bad_alloc&) {
    return Fail(ErrorCode::kTooLarge, "no memory for vector " + std::to_string(size()) + " of the index");
  }
  return {};
}

Result<std::vector<SearchHit>> ExactIndex::Search(std::span<const float> query, size_t k, size_t limit) const {
  TRY(CheckVector(query, dim_));
  const size_t rows = std::min(limit, size());
  k = std::min(k, rows);
  if (k == 0) return std::vector<SearchHit>();
  Best best(k);
  std::array<float, kBlockRows> scores;
  for (size_t first = 0; first < rows; first += kBlockRows) {
    const size_t count = std::min(kBlockRows, rows - first);
    kernels::DotF32(query.data(), vectors_.data() + first * dim_, count, dim_, scores.data());
    for (size_t i = 0; i < count; ++i) best.Offer(static_cast<uint32_t>(first + i), scores[i]);
  }
  return std::move(best).Sorted();
}

}  // namespace inferscale
