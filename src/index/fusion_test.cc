#include "index/fusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

namespace inferscale {
namespace {

constexpr uint32_t kDim = 24;

std::vector<float> UnitVector(std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> v(kDim);
  float squared = 0.0f;
  for (float& x : v) {
    x = normal(random);
    squared += x * x;
  }
  for (float& x : v) x /= std::sqrt(squared);
  return v;
}

// Every row's rank value, all sorted.
std::vector<FusedHit> Naive(const ExactIndex& index, const std::vector<float>& query,
                            const std::map<uint32_t, KeywordRow>& keywords, const RowMask* allowed, size_t k,
                            std::optional<float> threshold) {
  std::vector<std::pair<float, FusedHit>> all;
  for (uint32_t row = 0; row < index.size(); ++row) {
    if (!index.IsLive(row) || (allowed != nullptr && !allowed->Test(row))) continue;
    const uint32_t rows[] = {row};
    const float cosine = index.Scores(query, rows)->at(0);
    const auto match = keywords.find(row);
    const float share = match == keywords.end() ? 0.0f : match->second.share;
    const float value = cosine + 0.5f * share, score = std::min(1.0f, std::max(0.0f, value));
    if (threshold && score < *threshold) continue;
    all.push_back({value, {row, score, cosine, match == keywords.end() ? 0.0f : match->second.score}});
  }
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<FusedHit> hits;
  for (size_t i = 0; i < std::min(k, all.size()); ++i) hits.push_back(all[i].second);
  return hits;
}

TEST(FusionTest, EqualsSortingEverything) {
  std::mt19937 random(3);
  for (const size_t n : {1u, 10u, 300u, 900u}) {
    ExactIndex index(kDim);
    for (size_t i = 0; i < n; ++i) {
      const auto copy = i > 0 && random() % 4 == 0 ? index.Vector(random() % i) : std::span<const float>();
      const std::vector<float> vector =
          copy.empty() ? UnitVector(random) : std::vector<float>(copy.begin(), copy.end());  // ties
      ASSERT_TRUE(index.Add(vector));
    }
    for (size_t i = 0; i < n / 5; ++i) index.Remove(random() % n);
    for (int round = 0; round < 40; ++round) {
      // Shares of a few values only: ties again.
      std::map<uint32_t, KeywordRow> keywords;
      std::vector<KeywordRow> given;
      for (size_t i = 0; i < n / (1 + random() % 6); ++i) {
        const auto row = static_cast<uint32_t>(random() % n);
        const float share = static_cast<float>(1 + random() % 4) / 4.0f;
        if (keywords.try_emplace(row, KeywordRow{row, 7.0f * share, share}).second) given.push_back(keywords[row]);
      }
      RowMask mask(n, false);
      for (size_t row = 0; row < n; ++row) mask.Set(row, random() % 2 == 0);
      const RowMask* allowed = round % 2 == 0 ? &mask : nullptr;
      const std::vector<float> query = UnitVector(random);
      for (const size_t k : {0u, 1u, 7u, 100u, 2000u}) {
        for (const std::optional<float> threshold : {std::optional<float>(), std::optional<float>(0.3f)}) {
          const auto got = SearchFused(index, query, given, allowed, k, threshold);
          ASSERT_TRUE(got);
          const auto want = Naive(index, query, keywords, allowed, k, threshold);
          ASSERT_EQ(got->size(), want.size());
          for (size_t i = 0; i < want.size(); ++i) {
            ASSERT_EQ((*got)[i].row, want[i].row) << n << " rows, k " << k << ", place " << i;
            ASSERT_EQ((*got)[i].score, want[i].score);
            ASSERT_EQ((*got)[i].cosine, want[i].cosine);
            ASSERT_EQ((*got)[i].keyword, want[i].keyword);
          }
        }
      }
    }
  }
}

TEST(FusionTest, AMatchNeverHurtsAndNoMatchIsTheCosine) {
  for (float cosine = 0.0f; cosine <= 1.0f; cosine += 0.05f) {
    EXPECT_EQ(FusedScore(cosine, 0.0f), cosine);
    float before = cosine;
    for (float share = 0.05f; share <= 1.0f; share += 0.05f) {
      const float score = FusedScore(cosine, share);
      EXPECT_GE(score, before);
      EXPECT_LE(score, 1.0f);
      before = score;
    }
  }
  EXPECT_EQ(FusedScore(-0.8f, 0.0f), 0.0f);
  EXPECT_EQ(FusedScore(1.0000001f, 0.0f), 1.0f);
}

TEST(FusionTest, WhatIsEqualAfterTheCutIsNotEqualInRank) {
  ExactIndex index(2);
  const float vectors[][2] = {{-0.8f, 0.6f}, {-0.6f, 0.8f}, {0.96f, 0.28f}, {1.0f, 0.0f}};
  for (const auto& vector : vectors) ASSERT_TRUE(index.Add(vector));
  const std::vector<float> query = {1.0f, 0.0f};
  const KeywordRow keywords[] = {{2, 3.0f, 1.0f}, {3, 3.0f, 1.0f}};
  const auto hits = SearchFused(index, query, keywords, nullptr, 4);
  ASSERT_EQ(hits->size(), 4u);
  const uint32_t rows[] = {3, 2, 1, 0};
  const float scores[] = {1, 1, 0, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ((*hits)[i].row, rows[i]);
    EXPECT_EQ((*hits)[i].score, scores[i]);
  }
  EXPECT_EQ(SearchFused(index, query, keywords, nullptr, 4, 0.0f)->size(), 4u);
  EXPECT_EQ(SearchFused(index, query, keywords, nullptr, 4, 0.5f)->size(), 2u);
}

TEST(FusionTest, RefusesRowsThatAreNotThere) {
  ExactIndex index(2);
  ASSERT_TRUE(index.Add(std::vector<float>{1, 0}));
  const std::vector<float> query = {1.0f, 0.0f};
  const KeywordRow beyond[] = {{1, 1, 1}}, twice[] = {{0, 1, 1}, {0, 1, 1}}, fine[] = {{0, 1, 1}};
  EXPECT_FALSE(SearchFused(index, query, beyond, nullptr, 1));
  EXPECT_FALSE(SearchFused(index, query, twice, nullptr, 1));
  EXPECT_FALSE(SearchFused(index, std::vector<float>{1}, fine, nullptr, 1));
  EXPECT_TRUE(SearchFused(index, query, fine, nullptr, 1));
}

}  // namespace
}  // namespace inferscale
