// Test vectors of exact top-k and their oracle: scores in double precision, every row compared with the worst found.
// The same cases run on the CPU (topk_test.cc) and on a device (cuda/topk_cuda_test.cc).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/topk.h"

namespace inferscale::kernels {

enum class TopkData : uint8_t {
  kRandom,
  kEqual,      // all vectors the same
  kAscending,  // every row is a candidate when it is looked at, and some are equal
  kTies,       // small whole numbers: sums are exact, and many are equal
  kSpecial,    // random, with NaN and infinity
};
enum class TopkMask : uint8_t { kNone, kFull, kEmpty, kHalf, kSparse };

struct TopkCaseSpec {
  VectorType type = VectorType::kF16;
  uint32_t rows = 0;
  uint32_t dim = 384;
  uint32_t queries = 1;
  uint32_t k = 50;
  uint32_t padding = 0;  // bytes behind each vector, NaN as f16; a multiple of 16
  TopkData data = TopkData::kRandom;
  TopkMask mask = TopkMask::kNone;
  bool slots = false;
  bool scales = false;  // int8
  uint32_t seed = 1;

  std::string Name() const;
};

// Every size, type, kind of data and of mask, then random ones.
std::vector<TopkCaseSpec> TopkCases();

// A case's memory, inputs and outputs with guards around them, is one buffer that can be copied to a device.
class TopkCase {
 public:
  explicit TopkCase(const TopkCaseSpec& spec);

  const std::vector<uint8_t>& memory() const { return memory_; }
  // Pointers into a copy of memory() at `base`.
  TopkArgs Args(uint8_t* base) const;
  // memory: the copy after the search. "", or what is wrong.
  std::string Check(std::vector<uint8_t> memory) const;

 private:
  size_t Take(size_t bytes);  // returns the offset
  void FillVectors(size_t at, uint32_t count, bool queries);
  void FillMask();
  bool MayFind(uint32_t row) const;
  double Exact(uint32_t query, uint32_t row, double* magnitude) const;
  std::string CheckQuery(const TopkArgs& out, uint32_t query) const;
  std::string CheckRest(uint32_t query, float worst_score, uint32_t worst_row, const std::vector<bool>& found) const;
  bool IsExact() const { return spec_.type == VectorType::kInt8 || spec_.data == TopkData::kTies; }

  TopkCaseSpec spec_;
  uint64_t stride_ = 0;
  std::vector<uint8_t> memory_;
  size_t vectors_, queries_, vector_scales_, query_scales_, mask_, slots_, scores_, rows_, out_slots_;
};

}  // namespace inferscale::kernels
