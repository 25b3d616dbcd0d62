#include "index/exact_index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "base/limits.h"
#include "kernels/cpu/dot.h"

namespace inferscale {
namespace {

std::vector<float> UnitVector(uint32_t dim, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> v(dim);
  double squared = 0.0;
  for (float& x : v) {
    x = normal(random);
    squared += double{x} * x;
  }
  for (float& x : v) x /= static_cast<float>(std::sqrt(squared));
  return v;
}

// Scores everything and sorts everything.
std::vector<SearchHit> Naive(const std::vector<std::vector<float>>& rows, const std::vector<float>& query, size_t k,
                             size_t limit) {
  std::vector<SearchHit> all;
  for (uint32_t row = 0; row < rows.size() && row < limit; ++row) {
    float score;
    kernels::DotF32(query.data(), rows[row].data(), 1, query.size(), &score);
    all.push_back({row, score});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  all.resize(std::min(k, all.size()));
  return all;
}

void ExpectSame(const std::vector<SearchHit>& got, const std::vector<SearchHit>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(got[i].row, want[i].row) << "place " << i;
    ASSERT_EQ(got[i].score, want[i].score) << "place " << i;
  }
}

TEST(ExactIndexTest, EqualsNaiveSearchOnRandomSets) {
  std::mt19937 random(1);
  for (const uint32_t dim : {1u, 3u, 16u, 384u}) {
    for (const size_t n : {0u, 1u, 2u, 255u, 256u, 257u, 1500u}) {
      ExactIndex index(dim);
      std::vector<std::vector<float>> rows;
      for (size_t i = 0; i < n; ++i) {
        // A third are copies of earlier ones: ties everywhere (in one dimension all are +1 or -1).
        rows.push_back(i > 0 && random() % 3 == 0 ? rows[random() % i] : UnitVector(dim, random));
        ASSERT_TRUE(index.Add(rows.back()));
      }
      ASSERT_EQ(index.size(), n);
      for (const size_t k : {0u, 1u, 5u, 50u, 300u, 5000u}) {
        for (const size_t limit : {size_t{0}, size_t{1}, n / 2, n, SIZE_MAX}) {
          const std::vector<float> query = UnitVector(dim, random);
          const auto hits = index.Search(query, k, limit);
          ASSERT_TRUE(hits);
          ExpectSame(*hits, Naive(rows, query, k, limit));
          if (HasFatalFailure()) FAIL() << "dim " << dim << ", n " << n << ", k " << k << ", limit " << limit;
        }
      }
    }
  }
}

TEST(ExactIndexTest, RowsInWorstOrderForTheSelection) {
  // Ascending scores: every row beats all before it, so the candidates' buffer is cut again and again. Then all equal.
  for (const float slope : {1.0f, -1.0f, 0.0f}) {
    ExactIndex index(2);
    std::vector<std::vector<float>> rows;
    for (int i = 0; i < 3000; ++i) {
      const float angle = slope * static_cast<float>(i) / 3000.0f;
      rows.push_back({std::sin(angle), std::cos(angle)});
      ASSERT_TRUE(index.Add(rows.back()));
    }
    for (const size_t k : {1u, 50u, 256u, 2999u}) {
      const std::vector<float> query = {1.0f, 0.0f};
      ExpectSame(*index.Search(query, k), Naive(rows, query, k, SIZE_MAX));
    }
  }
}

TEST(ExactIndexTest, RefusesWrongLengthsAndNonFiniteValues) {
  ExactIndex index(4);
  const std::vector<float> good = {1, 0, 0, 0};
  ASSERT_TRUE(index.Add(good));
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const std::vector<std::vector<float>> bad = {
      {}, {1, 0, 0}, {1, 0, 0, 0, 0}, {0, nan, 0, 0}, {0, 0, inf, 0}, {0, 0, 0, -inf}, {3e38f, 3e38f, 0, 0}};
  for (const std::vector<float>& vector : bad) {
    const Status added = index.Add(vector);
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, ErrorCode::kInvalidArgument);
    EXPECT_FALSE(index.Search(vector, 1));
  }
  EXPECT_EQ(index.size(), 1u);  // nothing changed
  EXPECT_EQ(index.Search(good, 10)->size(), 1u);
  EXPECT_EQ(index.Vector(0)[0], 1.0f);
}

TEST(ExactIndexTest, LargeFiniteVectorsNeverMakeNan) {
  ExactIndex index(4);
  const std::vector<float> large = {5e17f, -5e17f, 5e17f, 5e17f};
  ASSERT_TRUE(index.Add(large));
  const auto hits = index.Search(large, 1);
  ASSERT_TRUE(hits);
  EXPECT_TRUE(std::isfinite((*hits)[0].score));
}

TEST(ExactIndexTest, ManyThreadsSearchAtOnce) {
  std::mt19937 random(9);
  ExactIndex index(64);
  std::vector<std::vector<float>> rows;
  for (int i = 0; i < 600; ++i) {
    rows.push_back(UnitVector(64, random));
    ASSERT_TRUE(index.Add(rows.back()));
  }
  const std::vector<float> query = UnitVector(64, random);
  const std::vector<SearchHit> want = Naive(rows, query, 20, SIZE_MAX);
  std::vector<int> same(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 50; ++round) {
        const auto hits = index.Search(query, 20);
        same[t] += hits && std::equal(hits->begin(), hits->end(), want.begin(), want.end(),
                                      [](const auto& a, const auto& b) { return a.row == b.row; });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, (std::vector<int>(4, 50)));
}

TEST(ExactIndexDeathTest, DimensionOutsideTheLimitIsOurBug) {
  EXPECT_DEATH(ExactIndex(0), "dim");
  EXPECT_DEATH(ExactIndex(limits::kEmbedDimMax + 1), "dim");
}

}  // namespace
}  // namespace inferscale
