#include "store/recent_records.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace inferscale {
namespace {

constexpr KvShape kShape = {.layers = 1, .kv_heads = 1, .key_dim = 16, .value_dim = 16};  // 64 bytes per token

RecordHandle Record(uint32_t tokens) {
  return std::make_shared<const KvRecord>(KvRecord{{}, KvPayload(kShape, tokens)});
}
RecordId Id(uint64_t i) { return HashBytes(std::to_string(i)); }

TEST(RecentRecords, TheLeastRecentlyUsedLeave) {
  RecentRecords recent(3 * 64);
  for (const uint64_t i : {1, 2, 3}) recent.Keep(Id(i), Record(1));
  EXPECT_NE(recent.Find(Id(1)), nullptr);
  recent.Keep(Id(4), Record(1));
  EXPECT_EQ(recent.Find(Id(2)), nullptr);
  recent.Keep(Id(5), Record(2));
  EXPECT_EQ(recent.Find(Id(3)), nullptr);
  EXPECT_EQ(recent.Find(Id(1)), nullptr);
  EXPECT_NE(recent.Find(Id(4)), nullptr);
  EXPECT_EQ(recent.bytes(), 3u * 64);
}

TEST(RecentRecords, AHandleOutlivesItsPlace) {
  RecentRecords recent(64);
  const RecordHandle first = Record(1);
  recent.Keep(Id(1), first);
  recent.Keep(Id(2), Record(1));
  EXPECT_EQ(recent.Find(Id(1)), nullptr);
  EXPECT_EQ(first->payload.tokens(), 1u);
}

TEST(RecentRecords, WhatDoesNotFitIsNotKeptAndPushesNothingOut) {
  RecentRecords recent(64), none(0);
  recent.Keep(Id(1), Record(1));
  recent.Keep(Id(2), Record(2));
  EXPECT_NE(recent.Find(Id(1)), nullptr);
  EXPECT_EQ(recent.Find(Id(2)), nullptr);
  none.Keep(Id(1), Record(1));
  EXPECT_EQ(none.Find(Id(1)), nullptr);
}

// Against a list that is searched from end to end.
TEST(RecentRecords, AgreesWithTheObvious) {
  constexpr uint64_t kBudget = 20 * 64;
  RecentRecords recent(kBudget);
  std::vector<std::pair<uint64_t, RecordHandle>> naive;  // most recently used last
  std::mt19937 random(5);
  for (int step = 0; step < 20'000; ++step) {
    const uint64_t id = random() % 40;
    const auto at = std::find_if(naive.begin(), naive.end(), [&](const auto& each) { return each.first == id; });
    if (random() % 2 == 0) {
      ASSERT_EQ(recent.Find(Id(id)), at == naive.end() ? nullptr : at->second);
    } else if (at == naive.end()) {
      const RecordHandle record = Record(1 + random() % 6);
      recent.Keep(Id(id), record);
      naive.emplace_back(id, record);
      const auto bytes = [&] {
        uint64_t sum = 0;
        for (const auto& each : naive) sum += each.second->payload.bytes();
        return sum;
      };
      while (bytes() > kBudget) naive.erase(naive.begin());
      ASSERT_EQ(recent.bytes(), bytes());
      continue;
    } else {
      recent.Keep(Id(id), Record(1));  // keeps the one that is here
    }
    if (at != naive.end()) std::rotate(at, at + 1, naive.end());
  }
}

}  // namespace
}  // namespace inferscale
