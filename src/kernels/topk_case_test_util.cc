#include "kernels/topk_case_test_util.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "kernels/cpu/convert.h"

namespace inferscale::kernels {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xFF;  // NaN as f16, and no row number

template <class T>
T* At(uint8_t* base, size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}
template <class T>
const T* At(const uint8_t* base, size_t offset) {
  return reinterpret_cast<const T*>(base + offset);
}

// One element of a vector (or query) as a number that both types can hold well.
float Element(const TopkCaseSpec& spec, uint32_t row, bool query, std::mt19937& random) {
  const float step = spec.type == VectorType::kInt8 ? 1.0f : 1.0f / 64;
  switch (spec.data) {
    case TopkData::kEqual:
      return 3 * step;
    case TopkData::kAscending:
      return query ? step : std::floor(250.0f * static_cast<float>(row) / static_cast<float>(spec.rows) - 125) * step;
    case TopkData::kTies:
      return static_cast<float>(random() % 5) - 2;
    default:
      return spec.type == VectorType::kInt8 ? static_cast<float>(random() % 255) - 127
                                            : std::normal_distribution<float>(0, 0.05f)(random);
  }
}

std::string At(uint32_t query, uint32_t i) {
  return "query " + std::to_string(query) + ", " + std::to_string(i) + ": ";
}

}  // namespace

std::string TopkCaseSpec::Name() const {
  return std::string(type == VectorType::kF16 ? "f16 " : "int8 ") + std::to_string(rows) + " x " + std::to_string(dim) +
         "+" + std::to_string(padding) + ", queries " + std::to_string(queries) + ", k " + std::to_string(k) +
         ", data " + std::to_string(static_cast<int>(data)) + ", mask " + std::to_string(static_cast<int>(mask)) +
         ", slots " + std::to_string(slots) + ", scales " + std::to_string(scales) + ", seed " + std::to_string(seed);
}

TopkCase::TopkCase(const TopkCaseSpec& spec) : spec_(spec) {
  const size_t bytes = size_t{spec.dim} * BytesPerElement(spec.type);
  stride_ = (bytes + 15) / 16 * 16 + spec.padding;
  const size_t results = size_t{spec.queries} * spec.k * 4;
  vectors_ = Take(spec.rows * stride_), queries_ = Take(spec.queries * stride_);
  vector_scales_ = Take(size_t{spec.rows} * 4), query_scales_ = Take(size_t{spec.queries} * 4);
  mask_ = Take((size_t{spec.rows} + 63) / 64 * 8), slots_ = Take(size_t{spec.rows} * 4);
  scores_ = Take(results), rows_ = Take(results), out_slots_ = Take(results);
  memory_.resize(memory_.size() + kGuard, kGuardByte);
  FillVectors(vectors_, spec.rows, false);
  FillVectors(queries_, spec.queries, true);
  FillMask();
  for (uint32_t r = 0; r < spec.rows; ++r) At<uint32_t>(memory_.data(), slots_)[r] = r * 7 + 3;
}

size_t TopkCase::Take(size_t bytes) {
  const size_t offset = (memory_.size() + kGuard + 15) / 16 * 16;
  memory_.resize(offset + bytes, kGuardByte);
  return offset;
}

void TopkCase::FillVectors(size_t at, uint32_t count, bool queries) {
  std::mt19937 random(spec_.seed * 2 + queries);
  float* scales = At<float>(memory_.data(), queries ? query_scales_ : vector_scales_);
  for (uint32_t r = 0; r < count; ++r) {
    uint8_t* row = memory_.data() + at + r * stride_;
    for (uint32_t d = 0; d < spec_.dim; ++d) {
      const float x = Element(spec_, r, queries, random);
      if (spec_.type == VectorType::kInt8) {
        At<int8_t>(row, 0)[d] = static_cast<int8_t>(x);
      } else {
        At<uint16_t>(row, 0)[d] = F32ToF16Scalar(x);
      }
    }
    scales[r] = 0.001f * static_cast<float>(1 + random() % 1000);
    if (spec_.data != TopkData::kSpecial || queries || random() % 4 != 0) continue;
    const bool nan = random() % 2 == 0;
    if (spec_.type == VectorType::kInt8) {
      scales[r] = nan ? std::numeric_limits<float>::quiet_NaN() : std::numeric_limits<float>::infinity();
    } else {
      At<uint16_t>(row, 0)[random() % spec_.dim] = nan ? 0x7E00 : 0x7C00;
    }
  }
}

void TopkCase::FillMask() {
  std::mt19937 random(spec_.seed + 77);
  auto* mask = At<uint64_t>(memory_.data(), mask_);
  const size_t words = (size_t{spec_.rows} + 63) / 64;
  std::memset(mask, spec_.mask == TopkMask::kFull ? 0xFF : 0, words * 8);  // bits behind the rows are no rows
  for (uint32_t r = 0; r < spec_.rows; ++r) {
    const bool set = (spec_.mask == TopkMask::kHalf && random() % 2 == 0) ||
                     (spec_.mask == TopkMask::kSparse && random() % 300 == 0);
    if (set) mask[r / 64] |= uint64_t{1} << (r % 64);
  }
}

TopkArgs TopkCase::Args(uint8_t* base) const {
  TopkArgs args;
  args.vectors = base + vectors_, args.vector_stride = stride_;
  args.queries = base + queries_, args.query_stride = stride_;
  if (spec_.scales)
    args.vector_scales = At<float>(base, vector_scales_), args.query_scales = At<float>(base, query_scales_);
  if (spec_.mask != TopkMask::kNone) args.mask = At<uint64_t>(base, mask_);
  if (spec_.slots) args.slots = At<uint32_t>(base, slots_), args.out_slots = At<uint32_t>(base, out_slots_);
  args.rows = spec_.rows, args.dim = spec_.dim, args.query_count = spec_.queries, args.k = spec_.k;
  args.type = spec_.type;
  args.out_scores = At<float>(base, scores_), args.out_rows = At<uint32_t>(base, rows_);
  return args;
}

bool TopkCase::MayFind(uint32_t row) const {
  return spec_.mask == TopkMask::kNone || (At<uint64_t>(memory_.data(), mask_)[row / 64] >> (row % 64) & 1) != 0;
}

double TopkCase::Exact(uint32_t query, uint32_t row, double* magnitude) const {
  const uint8_t* a = memory_.data() + queries_ + query * stride_;
  const uint8_t* b = memory_.data() + vectors_ + row * stride_;
  double sum = 0;
  *magnitude = 0;
  for (uint32_t d = 0; d < spec_.dim; ++d) {
    const double product = spec_.type == VectorType::kInt8
                               ? double{static_cast<float>(At<int8_t>(a, 0)[d])} * At<int8_t>(b, 0)[d]
                               : double{F16ToF32Scalar(At<uint16_t>(a, 0)[d])} * F16ToF32Scalar(At<uint16_t>(b, 0)[d]);
    sum += product, *magnitude += std::fabs(product);
  }
  if (!spec_.scales) return sum;
  return static_cast<float>(sum) *
         (At<float>(memory_.data(), query_scales_)[query] * At<float>(memory_.data(), vector_scales_)[row]);
}

std::string TopkCase::Check(std::vector<uint8_t> memory) const {
  for (uint32_t q = 0; q < spec_.queries; ++q) {
    const std::string wrong = CheckQuery(Args(memory.data()), q);
    if (!wrong.empty()) return wrong;
  }
  for (const size_t results : {scores_, rows_, out_slots_}) {
    if (results == out_slots_ && !spec_.slots) continue;
    std::memset(memory.data() + results, kGuardByte, size_t{spec_.queries} * spec_.k * 4);
  }
  return memory == memory_ ? "" : "memory beside the results was written";
}

std::string TopkCase::CheckQuery(const TopkArgs& out, uint32_t query) const {
  std::vector<bool> found(spec_.rows);
  uint32_t expected = 0;
  for (uint32_t r = 0; r < spec_.rows; ++r) expected += MayFind(r);
  expected = std::min(expected, spec_.k);
  const float* scores = out.out_scores + size_t{query} * spec_.k;
  const uint32_t* rows = out.out_rows + size_t{query} * spec_.k;
  const uint32_t* slots = out.out_slots == nullptr ? nullptr : out.out_slots + size_t{query} * spec_.k;
  for (uint32_t i = 0; i < spec_.k; ++i) {
    const uint32_t row = rows[i];
    if (i >= expected) {
      if (row != kNoTopkRow || scores[i] != -std::numeric_limits<float>::infinity())
        return At(query, i) + "a row too many";
      if (slots != nullptr && slots[i] != kNoTopkRow) return At(query, i) + "a slot too many";
      continue;
    }
    if (row >= spec_.rows || !MayFind(row) || found[row]) return At(query, i) + "row " + std::to_string(row);
    found[row] = true;
    if (slots != nullptr && slots[i] != row * 7 + 3) return At(query, i) + "another row's slot";
    double magnitude;
    const double exact = Exact(query, row, &magnitude);
    const bool right = std::isfinite(exact) && !IsExact()
                           ? std::fabs(scores[i] - exact) <= 1e-5 * magnitude
                           : TopkOrder(scores[i]) == TopkOrder(static_cast<float>(exact));
    if (!right) return At(query, i) + "score " + std::to_string(scores[i]) + ", not " + std::to_string(exact);
    if (i > 0 && TopkKey(scores[i - 1], rows[i - 1]) <= TopkKey(scores[i], row)) return At(query, i) + "not in order";
  }
  if (expected == 0) return "";
  return CheckRest(query, scores[expected - 1], rows[expected - 1], found);
}

// Rows that were not found are worse than the worst that was.
std::string TopkCase::CheckRest(uint32_t query, float worst_score, uint32_t worst_row,
                                const std::vector<bool>& found) const {
  if (std::count(found.begin(), found.end(), true) < static_cast<std::ptrdiff_t>(spec_.k)) return "";  // all were
  for (uint32_t r = 0; r < spec_.rows; ++r) {
    if (found[r] || !MayFind(r)) continue;
    double magnitude;
    const double exact = Exact(query, r, &magnitude);
    const auto score = static_cast<float>(exact);
    const bool worse = std::isfinite(exact) && std::isfinite(worst_score) && !IsExact()
                           ? exact <= worst_score + 1e-5 * magnitude
                           : TopkKey(score, r) < TopkKey(worst_score, worst_row);
    if (!worse) return "query " + std::to_string(query) + ": row " + std::to_string(r) + " is missing";
  }
  return "";
}

std::vector<TopkCaseSpec> TopkCases() {
  std::vector<TopkCaseSpec> cases;
  for (const VectorType type : {VectorType::kF16, VectorType::kInt8}) {
    for (const uint32_t rows : {0u, 1u, 50u, 127u, 128u, 129u, 1000u}) {
      for (const uint32_t dim : {1u, 37u, 384u, 768u, 1024u}) cases.push_back({.type = type, .rows = rows, .dim = dim});
      for (const auto data : {TopkData::kEqual, TopkData::kAscending, TopkData::kTies, TopkData::kSpecial}) {
        cases.push_back(
            {.type = type, .rows = rows, .dim = 64, .queries = 3, .data = data, .scales = type == VectorType::kInt8});
      }
      for (const auto mask : {TopkMask::kFull, TopkMask::kEmpty, TopkMask::kHalf, TopkMask::kSparse}) {
        cases.push_back({.type = type, .rows = rows, .dim = 48, .queries = 9, .k = 20, .mask = mask, .slots = true});
      }
    }
    for (const auto data : {TopkData::kRandom, TopkData::kEqual, TopkData::kAscending, TopkData::kSpecial}) {
      cases.push_back({.type = type, .rows = 40'000, .dim = 16, .k = 1024, .data = data});
      cases.push_back(
          {.type = type, .rows = 100'000, .dim = 8, .queries = 2, .k = 50, .data = data, .mask = TopkMask::kSparse});
    }
    cases.push_back({.type = type, .rows = 5000, .dim = 64, .queries = 200, .k = 100, .padding = 32, .slots = true});
    cases.push_back({.type = type, .rows = 3000, .dim = 24, .queries = 1024, .k = 10});
    cases.push_back({.type = type, .rows = 20'000, .dim = 40, .queries = 33, .k = 1000, .data = TopkData::kAscending});
  }
  std::mt19937 random(5);
  for (uint32_t seed = 0; seed < 150; ++seed) {
    TopkCaseSpec spec;
    spec.type = static_cast<VectorType>(random() % 2), spec.data = static_cast<TopkData>(random() % 5);
    spec.mask = static_cast<TopkMask>(random() % 5);
    spec.rows = random() % (random() % 4 == 0 ? 10'000 : 600), spec.dim = 1 + random() % 200;
    spec.queries = 1 + random() % (random() % 4 == 0 ? 140 : 12),
    spec.k = 1 + random() % (random() % 4 == 0 ? 1024 : 60);
    spec.padding = random() % 3 * 16, spec.slots = random() % 2 == 0, spec.seed = 100 + seed;
    spec.scales = spec.type == VectorType::kInt8 && random() % 2 == 0;
    cases.push_back(spec);
  }
  return cases;
}

}  // namespace inferscale::kernels
