#include "index/exact_index.h"

#include <string.h>  // explicit_bzero

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"
#include "kernels/cpu/dot.h"

namespace inferscale {

namespace {

// Scores per call of the kernel: 1 KiB of them stays in the first-level cache until they are looked at.
constexpr size_t kBlockRows = 256;

// Squared length up to which no score can overflow: |q.v| <= |q| |v| <= 1e36, and neither can a partial sum.
constexpr float kSquaredLengthMax = 1e36f;

// Rows are in chunks, each twice as large as the one before: adding never moves a vector (a grown array would leave
// copies in freed memory) and costs one allocation for all rows of a chunk, while 100 rows take 344 KB, not megabytes.
// The unused end of the last chunk is memory that was never touched: the system backs it with nothing.
constexpr size_t kFirstRows = 32;

size_t ChunkOf(size_t row) { return static_cast<size_t>(std::bit_width(row / kFirstRows + 1)) - 1; }
size_t ChunkBegin(size_t chunk) { return kFirstRows * ((size_t{1} << chunk) - 1); }
size_t ChunkRows(size_t chunk) { return kFirstRows << chunk; }

// Of a chunk: vectors of a multiple of 16 elements then begin on cache lines.
constexpr size_t kAlignment = 64;

// A block of which less than a quarter is allowed is scored row by row: four rows share the query's loads in the
// kernel, so that one alone costs up to twice its share.
constexpr size_t kSparseRows = kBlockRows / 4;

bool IsBetter(const SearchHit& a, const SearchHit& b) { return a.score != b.score ? a.score > b.score : a.row < b.row; }

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
  bool cut_ = false;  // then hits_ begins with the k_ best so far, and worst_ is the worst of them
  float worst_ = 0.0f;
};

// A block of rows that lie together, and which of them may be found.
struct Block {
  size_t first = 0;      // row
  size_t count = 0;      // 1..kBlockRows
  const float* vectors;  // [count][dim]
  // [count] bits, the first block's row lowest; masks are shifted to it, since a block need not begin at a word.
  std::array<uint64_t, kBlockRows / 64> wanted = {};
  size_t wanted_count = 0;
};

// Bits of rows [first, first + 64).
uint64_t BitsAt(const RowMask& mask, size_t first) {
  const size_t shift = first % 64;
  const uint64_t low = mask.Word(first / 64) >> shift;
  return shift == 0 ? low : low | mask.Word(first / 64 + 1) << (64 - shift);
}

void FindWanted(const RowMask& alive, const RowMask* allowed, Block& block) {
  for (size_t i = 0; i * 64 < block.count; ++i) {
    uint64_t bits = BitsAt(alive, block.first + i * 64);
    if (allowed != nullptr) bits &= BitsAt(*allowed, block.first + i * 64);
    const size_t rest = block.count - i * 64;
    if (rest < 64) bits &= (uint64_t{1} << rest) - 1;
    block.wanted[i] = bits;
    block.wanted_count += static_cast<size_t>(std::popcount(bits));
  }
}

void OfferBlock(const Block& block, const float* query, size_t dim, Best& best) {
  std::array<float, kBlockRows> scores;
  const bool is_sparse = block.wanted_count < std::min(kSparseRows, block.count);
  if (!is_sparse) kernels::DotF32(query, block.vectors, block.count, dim, scores.data());
  if (block.wanted_count == block.count) {
    for (size_t i = 0; i < block.count; ++i) best.Offer(static_cast<uint32_t>(block.first + i), scores[i]);
    return;
  }
  for (size_t word = 0; word * 64 < block.count; ++word) {
    for (uint64_t bits = block.wanted[word]; bits != 0; bits &= bits - 1) {
      const size_t i = word * 64 + static_cast<size_t>(std::countr_zero(bits));
      if (is_sparse) kernels::DotF32(query, block.vectors + i * dim, 1, dim, &scores[i]);
      best.Offer(static_cast<uint32_t>(block.first + i), scores[i]);
    }
  }
}

}  // namespace

void ExactIndex::FreeVectors::operator()(float* vectors) const {
  explicit_bzero(vectors, used * sizeof(float));
  std::free(vectors);
}

ExactIndex::ExactIndex(uint32_t dim) : dim_(dim) { INFERSCALE_ASSERT(dim >= 1 && dim <= limits::kEmbedDimMax); }
ExactIndex::~ExactIndex() = default;
ExactIndex::ExactIndex(ExactIndex&&) noexcept = default;
ExactIndex& ExactIndex::operator=(ExactIndex&&) noexcept = default;

float* ExactIndex::RowAt(size_t row) const {
  const size_t chunk = ChunkOf(row);
  return chunks_[chunk].get() + (row - ChunkBegin(chunk)) * dim_;
}

std::span<const float> ExactIndex::Vector(size_t row) const {
  INFERSCALE_ASSERT(row < size());
  return {RowAt(row), dim_};
}

size_t ExactIndex::bytes() const { return chunks_.empty() ? 0 : ChunkBegin(chunks_.size()) * dim_ * sizeof(float); }

Status ExactIndex::Add(std::span<const float> vector) {
  TRY(CheckVector(vector, dim_));
  const size_t row = size();
  if (row >= limits::kIndexRows)
    return Fail(ErrorCode::kTooLarge,
                "the index holds its limit of " + std::to_string(limits::kIndexRows) + " vectors");
  if (ChunkOf(row) == chunks_.size()) {
    const size_t bytes = ChunkRows(chunks_.size()) * dim_ * sizeof(float);  // a multiple of kAlignment: 32 rows
    auto* vectors = static_cast<float*>(std::aligned_alloc(kAlignment, bytes));
    if (vectors == nullptr)
      return Fail(ErrorCode::kTooLarge, "no memory for vector " + std::to_string(row) + " of the index");
    chunks_.emplace_back(vectors);
  }
  std::memcpy(RowAt(row), vector.data(), dim_ * sizeof(float));
  chunks_.back().get_deleter().used += dim_;
  alive_.PushBack(true);
  ++live_;
  return {};
}

bool ExactIndex::Remove(size_t row) {
  INFERSCALE_ASSERT(row < size());
  if (!alive_.Test(row)) return false;
  explicit_bzero(RowAt(row), dim_ * sizeof(float));
  alive_.Set(row, false);
  --live_;
  return true;
}

std::vector<uint32_t> ExactIndex::Compact() {
  std::vector<uint32_t> kept;
  kept.reserve(live_);
  for (size_t row = 0; row < size(); ++row) {
    if (!alive_.Test(row)) continue;
    if (row != kept.size()) {
      std::memcpy(RowAt(kept.size()), RowAt(row), dim_ * sizeof(float));
      explicit_bzero(RowAt(row), dim_ * sizeof(float));
    }
    kept.push_back(static_cast<uint32_t>(row));
  }
  const size_t chunks = kept.empty() ? 0 : ChunkOf(kept.size() - 1) + 1;
  chunks_.resize(chunks);
  if (chunks > 0) chunks_.back().get_deleter().used = (kept.size() - ChunkBegin(chunks - 1)) * dim_;
  alive_ = RowMask(kept.size(), true);
  return kept;
}

Result<std::vector<SearchHit>> ExactIndex::Search(std::span<const float> query, size_t k, size_t limit,
                                                  const RowMask* allowed) const {
  TRY(CheckVector(query, dim_));
  const size_t rows = std::min(limit, size());
  k = std::min({k, rows, live_});
  if (k == 0) return std::vector<SearchHit>();
  Best best(k);
  for (size_t first = 0; first < rows;) {
    const size_t chunk = ChunkOf(first);
    Block block;
    block.first = first;
    block.count = std::min({kBlockRows, rows - first, ChunkBegin(chunk + 1) - first});
    block.vectors = chunks_[chunk].get() + (first - ChunkBegin(chunk)) * dim_;
    FindWanted(alive_, allowed, block);
    if (block.wanted_count > 0) OfferBlock(block, query.data(), dim_, best);
    first += block.count;
  }
  return std::move(best).Sorted();
}

Result<std::vector<float>> ExactIndex::Scores(std::span<const float> query, std::span<const uint32_t> rows) const {
  TRY(CheckVector(query, dim_));
  std::vector<float> scores(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] >= size())
      return Fail(ErrorCode::kInvalidArgument, "row " + std::to_string(rows[i]) + " is not in the index, which has " +
                                                   std::to_string(size()) + " rows");
    kernels::DotF32(query.data(), RowAt(rows[i]), 1, dim_, &scores[i]);
  }
  return scores;
}

}  // namespace inferscale
