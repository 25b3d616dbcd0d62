// Exact top-k as data: many vectors, one or more queries, and for each query the k rows of largest inner product. The
// same descriptor goes to the CPU (cpu/topk.h) and to the CUDA kernels (cuda/topk.h).
#pragma once

#include <bit>
#include <cstdint>

#include "base/error.h"
#include "kernels/kv_payload.h"  // INFERSCALE_HD

namespace inferscale::kernels {

enum class VectorType : uint8_t { kF16 = 0, kInt8 = 1 };

INFERSCALE_HD constexpr uint32_t BytesPerElement(VectorType type) { return type == VectorType::kF16 ? 2 : 1; }

// A row that is not there: where fewer than k rows may be found. Its score is -infinity, its slot kNoTopkRow too.
inline constexpr uint32_t kNoTopkRow = 0xFFFFFFFF;

// The score of row r for query q:
//   f16:  sum over d of query[d] * vector[d], products exact, sums in f32 in any order
//   int8: float(sum over d of query[d] * vector[d]) * (query_scales[q] * vector_scales[r]); the sum in int32, which is
//         exact, so that every device gives the same bits
// Best first; equal scores (-0 is 0): the smaller row first; a NaN is worse than any number.
//
// All pointers are of one device (or the host, for the CPU). Inputs stay in place until the launch has ended.
struct TopkArgs {
  const void* vectors = nullptr;  // [rows][dim], rows vector_stride bytes apart; bytes behind dim are not looked at
  uint64_t vector_stride = 0;     // multiple of 16
  const float* vector_scales = nullptr;  // [rows], int8 only; null: 1
  const uint64_t* mask = nullptr;        // [(rows + 63) / 64] bits, the lowest first: rows that may be found; null: all
  const uint32_t* slots = nullptr;       // [rows] what belongs to a row, such as a record's slot; null: none asked for
  const void* queries = nullptr;         // [query_count][dim], of the vectors' type
  uint64_t query_stride = 0;             // multiple of 16
  const float* query_scales = nullptr;   // [query_count], int8 only; null: 1
  uint32_t rows = 0;
  uint32_t dim = 0;
  uint32_t query_count = 0;
  uint32_t k = 0;
  VectorType type = VectorType::kF16;
  float* out_scores = nullptr;    // [query_count][k]
  uint32_t* out_rows = nullptr;   // [query_count][k]
  uint32_t* out_slots = nullptr;  // [query_count][k]; null if and only if slots is
};

// kInvalidArgument or kTooLarge with the reason. vectors and queries are aligned to 16 bytes. No memory is looked at.
Status CheckTopk(const TopkArgs& args);

// Whether a row, which must be one of args.rows, may be found.
INFERSCALE_HD inline bool IsTopkCandidate(const TopkArgs& args, uint32_t row) {
  return args.mask == nullptr || (args.mask[row / 64] >> (row % 64) & 1) != 0;
}

// A score and its row as one number, larger is better: no two rows have the same key, and none has 0.
INFERSCALE_HD inline uint32_t TopkOrder(float score) {
  if (!(score == score)) return 0;
  const float positive_zero = score + 0.0f;
#ifdef __CUDA_ARCH__
  const uint32_t bits = __float_as_uint(positive_zero);
#else
  const auto bits = std::bit_cast<uint32_t>(positive_zero);
#endif
  return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}
INFERSCALE_HD inline uint64_t TopkKey(float score, uint32_t row) {
  return uint64_t{TopkOrder(score)} << 32 | (kNoTopkRow - row);
}
INFERSCALE_HD inline uint32_t TopkRow(uint64_t key) { return kNoTopkRow - static_cast<uint32_t>(key); }
INFERSCALE_HD inline float TopkScore(uint64_t key) {
  const auto order = static_cast<uint32_t>(key >> 32);
  const uint32_t bits = order == 0 ? 0x7FC00000u : order & 0x80000000u ? order & 0x7FFFFFFFu : ~order;
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

}  // namespace inferscale::kernels
