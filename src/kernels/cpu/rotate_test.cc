#include "kernels/cpu/rotate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_targets_test_util.h"

namespace inferscale::kernels {
namespace {

constexpr uint16_t kGuard = 0xABCD;

struct Shape {
  size_t tokens, head_dim, rotary_dims;
  size_t src_gap, dst_gap, table_gap;  // elements between rows
  size_t shift;                        // elements by which source and target miss their alignment
  bool interleaved;
};

// Sources, table and a guarded target for one shape.
struct Case {
  explicit Case(const Shape& s, uint32_t seed) : shape(s) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0f, 4.0f);
    src.resize(s.shift + s.tokens * (s.head_dim + s.src_gap));
    for (uint16_t& x : src) x = F32ToF16Scalar(normal(random));
    table.resize(s.tokens * (s.rotary_dims + s.table_gap) + 1);
    for (float& x : table) x = std::sin(normal(random)) * 1.2f;  // up to 1.2: a YaRN magnitude
    dst.assign(s.shift + s.tokens * (s.head_dim + s.dst_gap) + 16, kGuard);
  }
  RotateArgs Args() {
    return {.src = src.data() + shape.shift,
            .src_stride = shape.head_dim + shape.src_gap,
            .dst = dst.data() + shape.shift,
            .dst_stride = shape.head_dim + shape.dst_gap,
            .table = table.data(),
            .table_stride = shape.rotary_dims + shape.table_gap,
            .tokens = shape.tokens,
            .head_dim = shape.head_dim,
            .rotary_dims = shape.rotary_dims,
            .interleaved = shape.interleaved};
  }
  Shape shape;
  std::vector<uint16_t> src, dst;
  std::vector<float> table;
};

// |got - exact| within half a step of the half that got is, and the rounding of two products and a sum in f32.
void ExpectClose(uint16_t got, double exact, double product0, double product1) {
  const double value = F16ToF32Scalar(got);
  const double step = std::ldexp(1.0, std::max(std::ilogb(std::max(std::fabs(exact), 1e-30)), -14) - 10);
  const double f32 = std::ldexp(std::fabs(product0) + std::fabs(product1), -23);
  EXPECT_LE(std::fabs(value - exact), step / 2 + f32) << value << " for " << exact;
}

// Every element of dst: rotated elements against double precision, the others copied, nothing else written.
void Check(Case& c) {
  const RotateArgs args = c.Args();
  std::vector<bool> written(c.dst.size(), false);
  const size_t half = args.rotary_dims / 2;
  for (size_t t = 0; t < args.tokens; ++t) {
    const uint16_t* src = args.src + t * args.src_stride;
    const uint16_t* dst = args.dst + t * args.dst_stride;
    const float* row = args.table + t * args.table_stride;
    for (size_t i = 0; i < half; ++i) {
      const size_t first = args.interleaved ? 2 * i : i, second = args.interleaved ? 2 * i + 1 : i + half;
      const double x0 = F16ToF32Scalar(src[first]), x1 = F16ToF32Scalar(src[second]);
      const double cosine = row[i], sine = row[half + i];
      ExpectClose(dst[first], x0 * cosine - x1 * sine, x0 * cosine, x1 * sine);
      ExpectClose(dst[second], x0 * sine + x1 * cosine, x0 * sine, x1 * cosine);
    }
    for (size_t d = args.rotary_dims; d < args.head_dim; ++d) EXPECT_EQ(dst[d], src[d]);
    for (size_t d = 0; d < args.head_dim; ++d) written[c.shape.shift + t * args.dst_stride + d] = true;
  }
  for (size_t i = 0; i < c.dst.size(); ++i) {
    if (!written[i]) {
      EXPECT_EQ(c.dst[i], kGuard) << "outside the target, at " << i;
    }
  }
}

class RotateTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Pairing, RotateTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Interleaved" : "NeoxHalves"; });

TEST_P(RotateTest, EveryRotarySizeWithTails) {
  ForEachCpuTarget([&] {
    for (const size_t head_dim : {2u, 6u, 64u, 80u, 96u, 128u, 256u}) {
      for (size_t rotary = 0; rotary <= head_dim; rotary += 2) {
        Case c({3, head_dim, rotary, 0, 0, 0, 0, GetParam()}, static_cast<uint32_t>(rotary));
        RotateF16(c.Args());
        Check(c);
        if (HasFailure()) FAIL() << "head_dim " << head_dim << ", rotary " << rotary;
      }
    }
  });
}

TEST_P(RotateTest, RandomShapesStridesAndAlignments) {
  std::mt19937 random(7);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (uint32_t round = 0; round < 300; ++round) {
    const size_t head_dim = 1 + below(160);
    const Shape shape{below(40), head_dim, 2 * below(head_dim / 2 + 1), below(30), below(200), below(5), below(9),
                      GetParam()};
    ForEachCpuTarget([&] {
      Case c(shape, round);
      RotateF16(c.Args());
      Check(c);
    });
    Case scalar(shape, round);
    RotateF16Scalar(scalar.Args());
    Check(scalar);
    if (HasFailure()) FAIL() << "round " << round;
  }
}

TEST_P(RotateTest, SpecialValuesStayWhatTheyAre) {
  // Position 0: cos 1, sin 0. NaN spoils its pair and nothing else.
  ForEachCpuTarget([&] {
    Case c({1, 64, 64, 0, 0, 0, 0, GetParam()}, 1);
    for (size_t i = 0; i < 64; ++i) c.table[i] = i < 32 ? 1.0f : 0.0f;
    const size_t second = GetParam() ? 1 : 32;
    c.src[0] = 0x7E00;                    // NaN
    c.src[GetParam() ? 6 : 3] = 0x0001;   // the smallest subnormal
    c.src[GetParam() ? 62 : 31] = 0x7BFF;  // the largest half
    RotateF16(c.Args());
    EXPECT_TRUE(std::isnan(F16ToF32Scalar(c.dst[0])));
    EXPECT_TRUE(std::isnan(F16ToF32Scalar(c.dst[second])));
    for (size_t i = 0; i < 64; ++i) {
      if (i != 0 && i != second) {
        EXPECT_EQ(c.dst[i], c.src[i]) << i;
      }
    }
  });
}

TEST(RotateOracleTest, WrongTableIsNoticed) {
  // The check must be able to fail: one step of one half is seen.
  Case c({2, 64, 64, 0, 0, 0, 0, false}, 3);
  RotateF16(c.Args());
  const RotateArgs args = c.Args();
  const double x0 = F16ToF32Scalar(args.src[5]), x1 = F16ToF32Scalar(args.src[37]);
  const double exact = x0 * c.table[5] - x1 * c.table[37];
  const double off = F16ToF32Scalar(static_cast<uint16_t>(c.dst[5] + 1));
  const double step = std::ldexp(1.0, std::ilogb(std::fabs(exact)) - 10);
  EXPECT_GT(std::fabs(off - exact), step / 2);
}

}  // namespace
}  // namespace inferscale::kernels
