#include "core/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

namespace inferscale {
namespace {

using testing::HasSubstr;

RopeVariant Plain(RopePairing pairing, uint32_t dims, float base) {
  RopeVariant v;
  v.pairing = pairing;
  v.rotary_dims = dims;
  v.base = base;
  return v;
}

RopeVariant Yarn() {
  RopeVariant v = Plain(RopePairing::kNeoxHalves, 128, 1000000.0f);
  v.freq_scale = 0.25f;
  v.ext_factor = 1.0f;
  v.context_original = 32768;
  return v;
}

RopeVariant Llama3() {  // Llama 3.1's own: factor 8, bands 1 and 4 of 8,192 tokens
  RopeVariant v = Plain(RopePairing::kInterleaved, 128, 500000.0f);
  for (int i = 0; i < 64; ++i) {
    const double wavelength = 2.0 * M_PI * std::pow(500000.0, 2.0 * i / 128);
    const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
    v.freq_factors.push_back(static_cast<float>(1.0 / (std::clamp(smooth, 0.0, 1.0) * (1 - 1 / 8.0) + 1 / 8.0)));
  }
  return v;
}

struct Named {
  std::string name;
  RopeVariant variant;
};

std::vector<Named> Variants() {
  RopeVariant linear = Plain(RopePairing::kNeoxHalves, 256, 1000000.0f);
  linear.freq_scale = 0.125f;  // Gemma 3's global layers
  RopeVariant attn = Yarn();
  attn.attn_factor = 0.8f;
  return {{"Plain", Plain(RopePairing::kInterleaved, 64, 100000.0f)},
          {"Linear", linear},
          {"Llama3", Llama3()},
          {"Yarn", Yarn()},
          {"YarnAttnFactor", attn},
          {"Small", Plain(RopePairing::kInterleaved, 2, 10000.0f)}};
}

RopeSpec SpecOf(const RopeVariant& variant) {
  RopeSpec spec;
  spec.AddLayer(variant);
  return spec;
}

std::vector<double> RandomKey(size_t dims, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  std::vector<double> key(dims);
  for (double& x : key) x = normal(random);
  return key;
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Angles of the reference's pairs at a position: rotating (1, 0) gives (c, s).
std::pair<double, double> ReferencePair(const RopeVariant& v, double position, size_t i) {
  const size_t first = v.pairing == RopePairing::kInterleaved ? 2 * i : i;
  const size_t second = v.pairing == RopePairing::kInterleaved ? 2 * i + 1 : i + v.rotary_dims / 2;
  std::vector<double> x(v.rotary_dims, 0.0);
  x[first] = 1.0;
  RotateReference(v, position, x);
  return {x[first], x[second]};
}

class RopeTest : public testing::TestWithParam<Named> {};
INSTANTIATE_TEST_SUITE_P(Variants, RopeTest, testing::ValuesIn(Variants()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RopeTest, TableEqualsReferenceToTheStepsRounding) {
  const RopeVariant& v = GetParam().variant;
  ASSERT_TRUE(CheckRope(SpecOf(v), 1, v.rotary_dims));
  const RopeTable table(SpecOf(v), 131072);
  EXPECT_EQ(table.RowStride(0), v.rotary_dims);
  const size_t half = v.rotary_dims / 2;
  for (const uint32_t p : {0u, 1u, 2u, 100u, 1499u, 8191u, 32767u, 65535u, 131071u}) {
    const float* row = table.Row(0, p);
    for (size_t i = 0; i < half; ++i) {
      const auto [c, s] = ReferencePair(v, p, i);
      // The angle is p times i rounded factors, each rounded itself: an error of (2i + 6) units of 2^-24 of the angle.
      const double angle = p * std::pow(double{v.base}, -2.0 * static_cast<double>(i) / v.rotary_dims);
      const double bound = std::ldexp((2.0 * static_cast<double>(i) + 6.0) * angle + 4.0, -24) * 1.2;
      ASSERT_NEAR(row[i], c, bound) << "position " << p << ", pair " << i;
      ASSERT_NEAR(row[half + i], s, bound) << "position " << p << ", pair " << i;
    }
  }
}

TEST_P(RopeTest, ScoresDependOnTheDistanceOnly) {
  const RopeVariant& v = GetParam().variant;
  const std::vector<double> q = RandomKey(v.rotary_dims, 1), k = RandomKey(v.rotary_dims, 2);
  const auto score = [&](double q_position, double k_position) {
    std::vector<double> rotated_q = q, rotated_k = k;
    RotateReference(v, q_position, rotated_q);
    RotateReference(v, k_position, rotated_k);
    return Dot(rotated_q, rotated_k);
  };
  const double at_home = score(40, 17);
  for (const double shift : {1.0, 500.0, 100'000.0}) EXPECT_NEAR(score(40 + shift, 17 + shift), at_home, 1e-7);
  EXPECT_GT(std::fabs(score(40 + 500, 17) - at_home), 1e-4);  // and on the distance it does depend
}

TEST_P(RopeTest, UnrotateIsTheInverse) {
  const RopeVariant& v = GetParam().variant;
  const std::vector<double> key = RandomKey(v.rotary_dims + 6, 3);
  for (const double position : {0.0, 1.0, 1234.0, 131'071.0}) {
    std::vector<double> x = key;
    RotateReference(v, position, x);
    UnrotateReference(v, position, x);
    for (size_t i = 0; i < key.size(); ++i) EXPECT_NEAR(x[i], key[i], 1e-12);
  }
}

TEST_P(RopeTest, ElementsBehindTheRotaryDimsStay) {
  const RopeVariant& v = GetParam().variant;
  const std::vector<double> key = RandomKey(v.rotary_dims + 10, 4);
  std::vector<double> x = key;
  RotateReference(v, 777.0, x);
  EXPECT_NE(x[0], key[0]);
  for (size_t i = v.rotary_dims; i < key.size(); ++i) EXPECT_EQ(x[i], key[i]);
}

TEST(RopeFormulaTest, HandComputedValues) {
  // Pair 1 of 4 dimensions with base 100 turns by p / 10.
  std::vector<double> halves = {1, 2, 3, 4}, pairs = {1, 2, 3, 4};
  RotateReference(Plain(RopePairing::kNeoxHalves, 4, 100.0f), 5.0, halves);
  EXPECT_NEAR(halves[0], 1 * std::cos(5.0) - 3 * std::sin(5.0), 1e-12);
  EXPECT_NEAR(halves[2], 1 * std::sin(5.0) + 3 * std::cos(5.0), 1e-12);
  EXPECT_NEAR(halves[1], 2 * std::cos(0.5) - 4 * std::sin(0.5), 1e-12);
  EXPECT_NEAR(halves[3], 2 * std::sin(0.5) + 4 * std::cos(0.5), 1e-12);
  RotateReference(Plain(RopePairing::kInterleaved, 4, 100.0f), 5.0, pairs);
  EXPECT_NEAR(pairs[0], 1 * std::cos(5.0) - 2 * std::sin(5.0), 1e-12);
  EXPECT_NEAR(pairs[3], 3 * std::sin(0.5) + 4 * std::cos(0.5), 1e-12);
}

TEST(RopeFormulaTest, YarnTurnsFastPairsAsTrainedAndSlowOnesScaled) {
  const RopeVariant v = Yarn();
  const double m = 1.0 + 0.1 * std::log(4.0);
  const auto angle = [&](size_t i) { return 3.0 * std::pow(1e6, -2.0 * static_cast<double>(i) / 128); };
  const auto [c0, s0] = ReferencePair(v, 3.0, 0);
  EXPECT_NEAR(c0, m * std::cos(3.0), 1e-12);
  EXPECT_NEAR(s0, m * std::sin(3.0), 1e-12);
  const auto [c63, s63] = ReferencePair(v, 3.0, 63);
  EXPECT_NEAR(s63, m * std::sin(angle(63) / 4.0), 1e-12);
  EXPECT_NEAR(c63, m * std::cos(angle(63) / 4.0), 1e-12);
  // Between them: pairs 23 (32 turns within 32,768 tokens) to 40 (1 turn).
  const auto [c30, s30] = ReferencePair(v, 3.0, 30);
  const double ramp = 1.0 - (30.0 - 23.0) / (40.0 - 23.0);
  EXPECT_NEAR(std::atan2(s30, c30), angle(30) / 4.0 * (1 - ramp) + angle(30) * ramp, 1e-12);
}

TEST(RopeSpecTest, LayersShareEqualVariants) {
  RopeSpec spec;
  const RopeVariant local = Plain(RopePairing::kNeoxHalves, 256, 10000.0f);
  const RopeVariant global = Plain(RopePairing::kNeoxHalves, 256, 1000000.0f);
  for (int layer = 0; layer < 12; ++layer) spec.AddLayer(layer % 6 == 5 ? global : local);
  ASSERT_EQ(spec.variants.size(), 2u);
  EXPECT_EQ(spec.variants[0], local);
  EXPECT_EQ(spec.layer_variant, (std::vector<uint8_t>{0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(CheckRope(spec, 12, 256));
  EXPECT_EQ(spec.Describe(),
            "NeoX halves, 256 dims, theta 10000 (10 layers); NeoX halves, 256 dims, theta 1000000 (2 layers)");
  EXPECT_EQ(SpecOf(Plain(RopePairing::kInterleaved, 64, 100000.0f)).Describe(), "interleaved, 64 dims, theta 100000");
  EXPECT_THAT(SpecOf(Yarn()).Describe(), HasSubstr("YaRN x4 of 32768 tokens"));
}

TEST(RopeSpecTest, BrokenModelWithNanStaysOneVariant) {
  RopeSpec spec;
  for (int layer = 0; layer < 400; ++layer) {
    spec.AddLayer(Plain(RopePairing::kNeoxHalves, 64, std::numeric_limits<float>::quiet_NaN()));
  }
  EXPECT_EQ(spec.variants.size(), 1u);
  EXPECT_FALSE(CheckRope(spec, 400, 64));
}

TEST(RopeSpecTest, EveryParameterChangesTheDigest) {
  const auto digest = [](const RopeSpec& spec) {
    Hasher hasher;
    spec.AddTo(hasher);
    return hasher.Finish();
  };
  const RopeSpec base = SpecOf(Yarn());
  EXPECT_EQ(digest(base), digest(SpecOf(Yarn())));
  const std::vector<void (*)(RopeVariant&)> changes = {
      [](RopeVariant& v) { v.pairing = RopePairing::kInterleaved; }, [](RopeVariant& v) { v.rotary_dims = 64; },
      [](RopeVariant& v) { v.context_original = 4096; },             [](RopeVariant& v) { v.base = 10000.0f; },
      [](RopeVariant& v) { v.freq_scale = 0.5f; },                   [](RopeVariant& v) { v.ext_factor = 0.5f; },
      [](RopeVariant& v) { v.attn_factor = 2.0f; },                  [](RopeVariant& v) { v.beta_fast = 16.0f; },
      [](RopeVariant& v) { v.beta_slow = 2.0f; },                    [](RopeVariant& v) { v.freq_factors = {1.0f}; }};
  for (size_t i = 0; i < changes.size(); ++i) {
    RopeSpec changed = base;
    changes[i](changed.variants[0]);
    EXPECT_NE(digest(changed), digest(base)) << "change " << i;
  }
  RopeSpec longer = base;
  longer.AddLayer(Yarn());
  EXPECT_NE(digest(longer), digest(base));
}

TEST(RopeSpecTest, RefusesWhatCannotBeRotated) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const std::vector<std::pair<const char*, void (*)(RopeVariant&)>> changes = {
      {"rotary", [](RopeVariant& v) { v.rotary_dims = 0; }},
      {"rotary", [](RopeVariant& v) { v.rotary_dims = 63; }},
      {"rotary", [](RopeVariant& v) { v.rotary_dims = 130; }},
      {"theta", [](RopeVariant& v) { v.base = 1.0f; }},
      {"theta", [](RopeVariant& v) { v.base = kNan; }},
      {"theta", [](RopeVariant& v) { v.base = kInf; }},
      {"scale", [](RopeVariant& v) { v.freq_scale = 0.0f; }},
      {"scale", [](RopeVariant& v) { v.attn_factor = -1.0f; }},
      {"ext", [](RopeVariant& v) { v.ext_factor = -1.0f; }},
      {"ext", [](RopeVariant& v) { v.ext_factor = kNan; }},
      {"original", [](RopeVariant& v) { v.context_original = 0; }},
      {"betas", [](RopeVariant& v) { v.beta_slow = 0.0f; }},
      {"magnitude", [](RopeVariant& v) { v.freq_scale = 1e5f; }},
      {"factors", [](RopeVariant& v) { v.freq_factors.assign(63, 1.0f); }},
      {"factor", [](RopeVariant& v) { v.freq_factors.assign(64, 0.0f); }},
      {"pairing", [](RopeVariant& v) { v.pairing = static_cast<RopePairing>(9); }},
  };
  ASSERT_TRUE(CheckRope(SpecOf(Yarn()), 1, 128));
  for (const auto& [word, change] : changes) {
    RopeVariant v = Yarn();
    change(v);
    const Status status = CheckRope(SpecOf(v), 1, 128);
    ASSERT_FALSE(status) << word;
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(status.error().message, HasSubstr(word));
  }
  EXPECT_FALSE(CheckRope(SpecOf(Yarn()), 2, 128));   // a layer without parameters
  EXPECT_FALSE(CheckRope(SpecOf(Yarn()), 1, 0));     // no keys
  EXPECT_FALSE(CheckRope(SpecOf(Yarn()), 1, 4096));  // beyond the limit
  RopeSpec dangling = SpecOf(Yarn());
  dangling.layer_variant[0] = 1;
  EXPECT_FALSE(CheckRope(dangling, 1, 128));
}

TEST(RopeTableTest, LayersWithoutRotationHaveNoRow) {
  RopeSpec spec = SpecOf(Plain(RopePairing::kNeoxHalves, 64, 10000.0f));
  spec.AddLayer(RopeVariant());
  ASSERT_TRUE(CheckRope(spec, 2, 64));
  const RopeTable table(spec, 16);
  EXPECT_EQ(table.positions(), 16u);
  EXPECT_NE(table.Row(0, 15), nullptr);
  EXPECT_EQ(table.Row(1, 15), nullptr);
  EXPECT_EQ(table.Row(0, 1) - table.Row(0, 0), 64);
  std::vector<double> x = {1, 2};
  RotateReference(RopeVariant(), 5.0, x);
  UnrotateReference(RopeVariant(), 5.0, x);
  EXPECT_EQ(x, (std::vector<double>{1, 2}));
}

TEST(RopeTableDeathTest, PositionBehindTheTableIsOurBug) {
  const RopeTable table(SpecOf(Plain(RopePairing::kNeoxHalves, 64, 10000.0f)), 16);
  EXPECT_DEATH(table.Row(0, 16), "position < positions_");
}

}  // namespace
}  // namespace inferscale
