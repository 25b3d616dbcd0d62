#include "kernels/cpu/topk.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/dot.h"

namespace inferscale::kernels {
namespace {

// The k largest of the keys offered, in a buffer that is cut back to k when it is full: a constant cost per key.
class BestKeys {
 public:
  explicit BestKeys(size_t k) : k_(k) { keys_.reserve(2 * k + 64); }

  void Offer(uint64_t key) {
    if (key <= worst_) return;
    keys_.push_back(key);
    if (keys_.size() == keys_.capacity()) Cut();
  }

  // Best first, at most k.
  const std::vector<uint64_t>& Sort() {
    if (keys_.size() > k_) Cut();
    std::sort(keys_.begin(), keys_.end(), std::greater<>());
    return keys_;
  }

 private:
  void Cut() {
    const auto last = keys_.begin() + static_cast<std::ptrdiff_t>(k_) - 1;
    std::nth_element(keys_.begin(), last, keys_.end(), std::greater<>());
    worst_ = *last;
    keys_.resize(k_);
  }

  const size_t k_;  // >= 1
  std::vector<uint64_t> keys_;
  uint64_t worst_ = 0;  // keys up to here are not among the best
};

const uint8_t* VectorAt(const TopkArgs& args, uint32_t row) {
  return static_cast<const uint8_t*>(args.vectors) + row * args.vector_stride;
}

// One query against rows, one at a time.
class Scorer {
 public:
  Scorer(const TopkArgs& args, uint32_t query) : args_(args), row_(args.dim), query_(args.dim) {
    bytes_ = static_cast<const uint8_t*>(args.queries) + query * args.query_stride;
    scale_ = args.query_scales == nullptr ? 1.0f : args.query_scales[query];
    if (args.type == VectorType::kF16) {
      F16ToF32(reinterpret_cast<const uint16_t*>(bytes_), query_.data(), args.dim);
    }
  }

  float Score(uint32_t row) {
    const uint8_t* vector = VectorAt(args_, row);
    if (args_.type == VectorType::kF16) {
      float score = 0.0f;
      F16ToF32(reinterpret_cast<const uint16_t*>(vector), row_.data(), args_.dim);
      DotF32(query_.data(), row_.data(), 1, args_.dim, &score);
      return score;
    }
    const auto* a = reinterpret_cast<const int8_t*>(bytes_);
    const auto* b = reinterpret_cast<const int8_t*>(vector);
    int32_t sum = 0;  // 8,192 products of up to 2^14 are below 2^27
    for (uint32_t d = 0; d < args_.dim; ++d) sum += int32_t{a[d]} * b[d];
    return static_cast<float>(sum) * (scale_ * (args_.vector_scales == nullptr ? 1.0f : args_.vector_scales[row]));
  }

 private:
  const TopkArgs& args_;
  const uint8_t* bytes_;  // [dim] the query
  float scale_;
  std::vector<float> row_, query_;  // [dim] of f16
};

}  // namespace

void TopkCpu(const TopkArgs& args) {
  if (args.k == 0) return;
  for (uint32_t query = 0; query < args.query_count; ++query) {
    Scorer scorer(args, query);
    BestKeys best(args.k);
    for (uint32_t row = 0; row < args.rows; ++row) {
      if (!IsTopkCandidate(args, row)) continue;
      best.Offer(TopkKey(scorer.Score(row), row));
    }
    const std::vector<uint64_t>& keys = best.Sort();
    for (uint32_t i = 0; i < args.k; ++i) {
      const size_t at = size_t{query} * args.k + i;
      const bool there = i < keys.size();
      const uint32_t row = there ? TopkRow(keys[i]) : kNoTopkRow;
      args.out_rows[at] = row;
      args.out_scores[at] = there ? TopkScore(keys[i]) : -std::numeric_limits<float>::infinity();
      if (args.slots != nullptr) args.out_slots[at] = there ? args.slots[row] : kNoTopkRow;
    }
  }
}

}  // namespace inferscale::kernels
