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

std::vector<uint32_t> Rows(const std::vector<SearchHit>& hits) {
  std::vector<uint32_t> rows;
  for (const SearchHit& hit : hits) rows.push_back(hit.row);
  return rows;
}

// A plain list beside the index: adds, removals, compactions, masks and limits at random.
TEST(ExactIndexTest, EqualsNaiveSearchUnderRemovalsAndMasks) {
  constexpr uint32_t kDim = 19;
  std::mt19937 random(12);
  ExactIndex index(kDim);
  std::vector<std::vector<float>> rows;
  std::vector<bool> live;
  for (int step = 0; step < 3000; ++step) {
    const unsigned action = random() % 100;
    if (action < 80 || rows.empty()) {
      rows.push_back(!rows.empty() && live.back() && random() % 3 == 0 ? rows.back() : UnitVector(kDim, random));
      live.push_back(true);
      ASSERT_TRUE(index.Add(rows.back()));
    } else if (action < 98) {
      const size_t row = random() % rows.size();
      ASSERT_EQ(index.Remove(row), live[row]);
      live[row] = false;
    } else {
      std::vector<uint32_t> kept;
      for (uint32_t row = 0; row < rows.size(); ++row)
        if (live[row]) kept.push_back(row);
      ASSERT_EQ(index.Compact(), kept);
      for (size_t i = 0; i < kept.size(); ++i) rows[i] = rows[kept[i]];
      rows.resize(kept.size());
      live.assign(kept.size(), true);
    }
    ASSERT_EQ(index.size(), rows.size());
    ASSERT_EQ(index.live(), static_cast<size_t>(std::count(live.begin(), live.end(), true)));
    if (step % 20 != 0) continue;
    const uint32_t density = 1 + random() % 40;                           // from all to few
    RowMask mask(rows.size() - random() % 2 * (rows.size() / 3), false);  // a mask may be shorter than the index
    for (size_t row = 0; row < mask.size(); ++row) mask.Set(row, random() % density == 0);
    const RowMask* allowed = random() % 3 == 0 ? nullptr : &mask;
    const size_t limit = random() % 2 == 0 ? SIZE_MAX : random() % (rows.size() + 1);
    const std::vector<float> query = UnitVector(kDim, random);
    std::vector<SearchHit> want = Naive(rows, query, rows.size(), limit);
    std::erase_if(
        want, [&](const SearchHit& hit) { return !live[hit.row] || (allowed != nullptr && !allowed->Test(hit.row)); });
    for (const size_t k : {1u, 10u, 400u}) {
      const auto hits = index.Search(query, k, limit, allowed);
      ASSERT_TRUE(hits);
      ExpectSame(*hits, {want.begin(), want.begin() + static_cast<std::ptrdiff_t>(std::min(k, want.size()))});
      if (HasFatalFailure()) FAIL() << "step " << step << ", k " << k;
    }
    const auto scores = index.Scores(query, Rows(want));
    for (size_t i = 0; i < want.size(); ++i) ASSERT_EQ((*scores)[i], want[i].score);
  }
  EXPECT_GT(rows.size(), 300u);
}

bool HasBytes(std::span<const float> where, const std::vector<float>& vector) {
  return std::search(where.begin(), where.end(), vector.begin(), vector.end()) != where.end();
}

TEST(ExactIndexTest, RemovedVectorsAreZeroedAndOthersStayWhereTheyAre) {
  constexpr uint32_t kDim = 16;
  std::mt19937 random(13);
  ExactIndex index(kDim);
  std::vector<std::vector<float>> rows;
  std::vector<const float*> places;
  for (size_t i = 0; i < 3000; ++i) {
    rows.push_back(UnitVector(kDim, random));
    ASSERT_TRUE(index.Add(rows.back()));
    places.push_back(index.Vector(i).data());
  }
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(index.Vector(i).data(), places[i]);  // no copy was left behind
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(i % 3 != 1 && index.Remove(i), i % 3 != 1);
  }
  EXPECT_FALSE(index.Remove(0));
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(index.IsLive(i), i % 3 == 1);
    ASSERT_EQ(std::count(places[i], places[i] + kDim, 0.0f), i % 3 == 1 ? 0 : kDim);
  }
  const size_t bytes = index.bytes();
  const std::vector<uint32_t> kept = index.Compact();
  EXPECT_EQ(kept.size(), 1000u);
  EXPECT_LT(index.bytes(), bytes);
  for (size_t i = 0; i < kept.size(); ++i) ASSERT_TRUE(HasBytes(index.Vector(i), rows[kept[i]]));
  // Its last chunk held rows 992 to 2015: what is behind row 999 there was moved away or removed.
  const float* end = index.Vector(999).data() + kDim;
  EXPECT_EQ(std::count(end, end + 1016 * kDim, 0.0f), 1016 * kDim);
  ASSERT_TRUE(index.Add(rows[5]));
  EXPECT_EQ(index.Search(rows[5], 1)->at(0).row, 1000u);
}

TEST(ExactIndexTest, AllRemoved) {
  ExactIndex index(4);
  const std::vector<float> vector = {1, 0, 0, 0};
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(index.Add(vector));
  for (size_t i = 0; i < 100; ++i) ASSERT_TRUE(index.Remove(i));
  EXPECT_TRUE(index.Search(vector, 5)->empty());
  EXPECT_TRUE(index.Compact().empty());
  EXPECT_EQ(index.size(), 0u);
  EXPECT_EQ(index.bytes(), 0u);
  ASSERT_TRUE(index.Add(vector));
  EXPECT_EQ(Rows(*index.Search(vector, 5)), std::vector<uint32_t>{0});
  const RowMask none(1, false), empty;
  EXPECT_TRUE(index.Search(vector, 5, SIZE_MAX, &none)->empty());
  EXPECT_TRUE(index.Search(vector, 5, SIZE_MAX, &empty)->empty());
  EXPECT_FALSE(index.Scores(vector, std::vector<uint32_t>{1}));
}

TEST(RowMaskTest, EqualsAListOfBools) {
  std::mt19937 random(1);
  for (const bool value : {false, true}) {
    for (const size_t rows : {0u, 1u, 63u, 64u, 65u, 200u}) {
      RowMask mask(rows, value);
      std::vector<bool> plain(rows, value);
      for (int i = 0; i < 100; ++i) {
        const bool bit = random() % 2 == 0;
        if (i % 2 == 0 && !plain.empty()) {
          const size_t row = random() % plain.size();
          mask.Set(row, bit);
          plain[row] = bit;
        } else {
          mask.PushBack(bit);
          plain.push_back(bit);
        }
        ASSERT_EQ(mask.size(), plain.size());
        ASSERT_EQ(mask.Count(), static_cast<size_t>(std::count(plain.begin(), plain.end(), true)));
      }
      for (size_t row = 0; row < plain.size() + 70; ++row)
        ASSERT_EQ(mask.Test(row), row < plain.size() && plain[row]) << row;
      ASSERT_EQ(mask.Word(plain.size() / 64 + 1), 0u);
    }
  }
}

TEST(ExactIndexDeathTest, DimensionOutsideTheLimitIsOurBug) {
  EXPECT_DEATH(ExactIndex(0), "dim");
  EXPECT_DEATH(ExactIndex(limits::kEmbedDimMax + 1), "dim");
}

}  // namespace
}  // namespace inferscale
