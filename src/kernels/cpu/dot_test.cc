#include "kernels/cpu/dot.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_targets_test_util.h"

namespace inferscale::kernels {
namespace {

std::vector<float> RandomFloats(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

// Against double precision; the bound is that of a sum of dim rounded products in any order.
void Check(decltype(&DotF32) kernel, size_t count, size_t dim, size_t shift) {
  const std::vector<float> query = RandomFloats(shift + dim, 1);  // exactly as long: a read behind is the sanitizer's
  const std::vector<float> vectors = RandomFloats(shift + count * dim, 2);
  std::vector<float> scores(count + 2, -99.0f);
  kernel(query.data() + shift, vectors.data() + shift, count, dim, scores.data() + 1);
  for (size_t i = 0; i < count; ++i) {
    double exact = 0.0, magnitude = 0.0;
    for (size_t d = 0; d < dim; ++d) {
      const double product = double{query[shift + d]} * vectors[shift + i * dim + d];
      exact += product;
      magnitude += std::fabs(product);
    }
    ASSERT_LE(std::fabs(scores[1 + i] - exact), std::ldexp(magnitude * static_cast<double>(dim + 1), -24))
        << count << " x " << dim << ", vector " << i;
  }
  ASSERT_EQ(scores.front(), -99.0f);
  ASSERT_EQ(scores.back(), -99.0f);
}

TEST(DotTest, EveryTailSize) {
  ForEachCpuTarget([] {
    for (size_t dim = 1; dim <= 100; ++dim) {
      for (size_t count = 0; count <= 9; ++count) Check(DotF32, count, dim, dim % 3);
    }
  });
}

TEST(DotTest, ModelSizes) {
  ForEachCpuTarget([] {
    for (const size_t dim : {384u, 768u, 1024u, 4096u}) Check(DotF32, 37, dim, 1);
  });
  Check(DotF32Scalar, 37, 384, 0);
}

TEST(DotTest, ScoreDoesNotDependOnTheNeighbours) {
  for (const size_t dim : {5u, 64u, 384u, 391u}) {
    const std::vector<float> query = RandomFloats(dim, 3), vectors = RandomFloats(11 * dim, 4);
    ForEachCpuTarget([&] {
      std::vector<float> together(11), alone(11);
      DotF32(query.data(), vectors.data(), 11, dim, together.data());
      for (size_t i = 0; i < 11; ++i) DotF32(query.data(), vectors.data() + i * dim, 1, dim, &alone[i]);
      EXPECT_EQ(together, alone) << dim;
    });
  }
}

TEST(DotTest, NonFiniteInputIsNotLost) {
  ForEachCpuTarget([] {
    for (const size_t at : {0u, 31u, 383u, 390u}) {  // in vectors and in the tail
      std::vector<float> query(391, 1.0f), vectors(5 * 391, 1.0f), scores(5);
      vectors[2 * 391 + at] = NAN;
      DotF32(query.data(), vectors.data(), 5, 391, scores.data());
      for (size_t i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(scores[i]), i == 2);
    }
  });
}

}  // namespace
}  // namespace inferscale::kernels
