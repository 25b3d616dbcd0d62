// Our cos/sin table and our rotation against the engine's own operator, which is what its cache would hold.
#include <ggml-cpu.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "core/rope.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/rotate.h"

namespace inferscale {
namespace {

struct Named {
  std::string name;
  RopeVariant variant;
  uint32_t head_dim;
};

std::vector<Named> Variants() {
  RopeVariant plain;
  plain.pairing = RopePairing::kInterleaved;
  plain.rotary_dims = 64;
  plain.base = 100000.0f;
  RopeVariant linear = plain;
  linear.pairing = RopePairing::kNeoxHalves;
  linear.rotary_dims = 256;
  linear.freq_scale = 0.125f;
  RopeVariant partial = linear;
  partial.rotary_dims = 32;
  RopeVariant factors = plain;
  factors.base = 500000.0f;
  for (int i = 0; i < 32; ++i) factors.freq_factors.push_back(i < 12 ? 1.0f : i < 20 ? 1.0f + 0.7f * (i - 11) : 8.0f);
  RopeVariant yarn = plain;
  yarn.pairing = RopePairing::kNeoxHalves;
  yarn.rotary_dims = 128;
  yarn.base = 1000000.0f;
  yarn.freq_scale = 0.25f;
  yarn.ext_factor = 1.0f;
  yarn.attn_factor = 0.9f;
  yarn.context_original = 32768;
  return {{"Plain", plain, 64},
          {"Linear", linear, 256},
          {"Partial", partial, 80},
          {"Factors", factors, 64},
          {"Yarn", yarn, 128}};
}

// ggml_rope_ext over keys [positions][head_dim] (f32 or f16), one head.
template <class T>
std::vector<T> EngineRope(const Named& named, const std::vector<T>& keys, const std::vector<int32_t>& positions) {
  const RopeVariant& v = named.variant;
  const std::unique_ptr<ggml_context, decltype(&ggml_free)> owner(
      ggml_init({.mem_size = size_t{64} << 20, .mem_buffer = nullptr, .no_alloc = false}), ggml_free);
  ggml_context* ctx = owner.get();
  const auto rows = static_cast<int64_t>(positions.size());
  ggml_tensor* x = ggml_new_tensor_3d(ctx, sizeof(T) == 2 ? GGML_TYPE_F16 : GGML_TYPE_F32, named.head_dim, 1, rows);
  ggml_tensor* p = ggml_new_tensor_1d(ctx, GGML_TYPE_I32, rows);
  std::memcpy(x->data, keys.data(), keys.size() * sizeof(T));
  std::memcpy(p->data, positions.data(), positions.size() * sizeof(int32_t));
  ggml_tensor* factors = nullptr;
  if (!v.freq_factors.empty()) {
    factors = ggml_new_tensor_1d(ctx, GGML_TYPE_F32, static_cast<int64_t>(v.freq_factors.size()));
    std::memcpy(factors->data, v.freq_factors.data(), v.freq_factors.size() * sizeof(float));
  }
  const int mode = v.pairing == RopePairing::kNeoxHalves ? GGML_ROPE_TYPE_NEOX : GGML_ROPE_TYPE_NORMAL;
  ggml_tensor* out =
      ggml_rope_ext(ctx, x, p, factors, static_cast<int>(v.rotary_dims), mode, static_cast<int>(v.context_original),
                    v.base, v.freq_scale, v.ext_factor, v.attn_factor, v.beta_fast, v.beta_slow);
  ggml_cgraph* graph = ggml_new_graph(ctx);
  ggml_build_forward_expand(graph, out);
  EXPECT_EQ(ggml_graph_compute_with_ctx(ctx, graph, 1), GGML_STATUS_SUCCESS);
  std::vector<T> result(keys.size());
  std::memcpy(result.data(), out->data, result.size() * sizeof(T));
  return result;
}

RopeTable TableOf(const Named& named, uint32_t positions) {
  RopeSpec spec;
  spec.AddLayer(named.variant);
  EXPECT_TRUE(CheckRope(spec, 1, named.head_dim));
  return RopeTable(spec, positions);
}

class RopeEngineTest : public testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(Variants, RopeEngineTest, testing::ValuesIn(Variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RopeEngineTest, TableIsTheEngines) {
  const Named& named = GetParam();
  const RopeVariant& v = named.variant;
  const std::vector<int32_t> positions = {0, 1, 2, 77, 1499, 8191, 32768, 131071};
  // Keys that are 1 in every pair's first element and 0 in its second come out as (c, s).
  std::vector<float> keys(positions.size() * named.head_dim, 0.0f);
  const size_t half = v.rotary_dims / 2;
  const bool neox = v.pairing == RopePairing::kNeoxHalves;
  for (size_t row = 0; row < positions.size(); ++row) {
    for (size_t i = 0; i < half; ++i) keys[row * named.head_dim + (neox ? i : 2 * i)] = 1.0f;
  }
  const std::vector<float> rotated = EngineRope(named, keys, positions);
  const RopeTable table = TableOf(named, 131072);
  for (size_t row = 0; row < positions.size(); ++row) {
    const float* ours = table.Row(0, static_cast<uint32_t>(positions[row]));
    for (size_t i = 0; i < half; ++i) {
      const float* theirs = rotated.data() + row * named.head_dim;
      const float c = theirs[neox ? i : 2 * i], s = theirs[neox ? half + i : 2 * i + 1];
      // Equal bits, but where the engine's build may fuse YaRN's blend into one rounding: a unit of 2^-23 of the angle.
      const double angle = positions[row] * std::pow(double{v.base}, -2.0 * static_cast<double>(i) / v.rotary_dims);
      const double bound = v.ext_factor == 0.0f ? 0.0 : std::ldexp(angle + 1.0, -22);
      ASSERT_NEAR(ours[i], c, bound) << "position " << positions[row] << ", pair " << i;
      ASSERT_NEAR(ours[half + i], s, bound) << "position " << positions[row] << ", pair " << i;
    }
  }
}

TEST_P(RopeEngineTest, RotatedKeysAreTheEngines) {
  const Named& named = GetParam();
  const RopeVariant& v = named.variant;
  constexpr uint32_t kTokens = 300, kFirst = 1200;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0.0f, 3.0f);
  std::vector<uint16_t> keys(size_t{kTokens} * named.head_dim);
  for (uint16_t& x : keys) x = kernels::F32ToF16Scalar(normal(random));
  std::vector<int32_t> positions(kTokens);
  std::iota(positions.begin(), positions.end(), static_cast<int32_t>(kFirst));
  const std::vector<uint16_t> theirs = EngineRope(named, keys, positions);
  const RopeTable table = TableOf(named, kFirst + kTokens);
  std::vector<uint16_t> ours(keys.size());
  kernels::RotateF16({.src = keys.data(),
                      .src_stride = named.head_dim,
                      .dst = ours.data(),
                      .dst_stride = named.head_dim,
                      .table = table.Row(0, kFirst),
                      .table_stride = table.RowStride(0),
                      .tokens = kTokens,
                      .head_dim = named.head_dim,
                      .rotary_dims = v.rotary_dims,
                      .interleaved = v.pairing == RopePairing::kInterleaved});
  size_t different = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const float a = kernels::F16ToF32Scalar(ours[i]), b = kernels::F16ToF32Scalar(theirs[i]);
    ASSERT_NEAR(a, b, std::ldexp(std::max(std::fabs(b), 0.05f), -10)) << i;  // one step of a half
    different += ours[i] != theirs[i];
  }
  EXPECT_LE(different, ours.size() / 100);  // fused or not decides few roundings to half
}

TEST(RopeEngineOracleTest, AnotherPositionIsNoticed) {
  const Named named = Variants()[0];
  const std::vector<float> keys(named.head_dim, 1.0f);
  const std::vector<float> here = EngineRope(named, keys, {1000}), next = EngineRope(named, keys, {1001});
  float largest = 0.0f;
  for (size_t i = 0; i < here.size(); ++i) largest = std::max(largest, std::fabs(here[i] - next[i]));
  EXPECT_GT(largest, 0.5f);
}

}  // namespace
}  // namespace inferscale
