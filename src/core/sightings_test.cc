#include "core/sightings.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace inferscale {
namespace {

Hash128 Text(uint64_t i) { return Hash128{i, ~i}; }

TEST(SightingsTest, TheSecondSightingIsTold) {
  Sightings sightings(4);
  EXPECT_FALSE(sightings.SeenBefore(Text(1)));
  EXPECT_FALSE(sightings.SeenBefore(Text(2)));
  EXPECT_TRUE(sightings.SeenBefore(Text(1)));
  EXPECT_TRUE(sightings.SeenBefore(Text(1)));
}

TEST(SightingsTest, VaryingTextsDoNotPushOutWhatComesAgain) {
  Sightings sightings(3);
  sightings.SeenBefore(Text(0));
  for (uint64_t i = 1; i < 1000; ++i) {
    EXPECT_FALSE(sightings.SeenBefore(Text(i)));
    EXPECT_TRUE(sightings.SeenBefore(Text(0)));
  }
}

TEST(SightingsTest, EqualsANaiveList) {
  std::mt19937 random(7);
  Sightings sightings(16);
  std::deque<uint64_t> naive;
  for (int i = 0; i < 20000; ++i) {
    const uint64_t text = random() % 40;
    const auto it = std::find(naive.begin(), naive.end(), text);
    const bool seen = it != naive.end();
    if (seen) naive.erase(it);
    naive.push_front(text);
    if (naive.size() > 16) naive.pop_back();
    ASSERT_EQ(sightings.SeenBefore(Text(text)), seen) << i;
  }
}

}  // namespace
}  // namespace inferscale
