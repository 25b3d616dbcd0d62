// The arena through the C interface: its logic has tests of its own (store/kv_arena_test.cc).
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "capi/abi_case_test_util.h"
#include "inferscale/inferscale.hpp"

namespace inferscale::capi {
namespace {

constexpr uint64_t kSlab = 16 << 10, kBytes = kSlab - 256;  // a record in one slab

class ArenaApi : public testing::Test {
 protected:
  struct alignas(16) Record {
    alignas(16) inferscale_stamp stamp;
    alignas(16) uint8_t payload[kBytes];
  };
  ArenaApi() : host_(6) {
    for (size_t i = 0; i < host_.size(); ++i) {
      host_[i].stamp = {{i + 1, ~i}, 1, i + 1};
      std::memset(host_[i].payload, static_cast<int>(i + 1), kBytes);
      records_.push_back({host_[i].stamp, host_[i].payload, kBytes, &host_[i].stamp});
    }
    EXPECT_EQ(inferscale_arena_open(device_.get(), 3 * kSlab, nullptr, api::Into(arena_)), INFERSCALE_OK);
  }
  inferscale_status Acquire(uint32_t first, uint32_t count, api::Lease& lease) {
    slots_.assign(count, {});
    return inferscale_arena_acquire(arena_.get(), records_.data() + first, count, slots_.data(), api::Into(lease));
  }
  void ExpectSlot(size_t slot, size_t record) const {
    ASSERT_NE(slots_[slot].payload, nullptr);
    EXPECT_EQ(std::memcmp(slots_[slot].payload, host_[record].payload, kBytes), 0);
    EXPECT_EQ(std::memcmp(slots_[slot].stamp, &host_[record].stamp, sizeof(inferscale_stamp)), 0);
  }
  inferscale_arena_stats_data Stats() const {
    inferscale_arena_stats_data stats{.struct_bytes = sizeof stats};
    EXPECT_EQ(inferscale_arena_stats(arena_.get(), &stats), INFERSCALE_OK);
    return stats;
  }

  std::vector<Record> host_;
  std::vector<inferscale_arena_record> records_;
  std::vector<inferscale_slot> slots_;
  api::Device device_ = OpenDevice(INFERSCALE_DEVICE_CPU);
  api::Arena arena_;
};

TEST_F(ArenaApi, SlotsHaveTheRecordsAndRoomIsMade) {
  api::Lease lease;
  ASSERT_EQ(Acquire(0, 3, lease), INFERSCALE_OK) << inferscale_last_error();
  for (size_t i = 0; i < 3; ++i) ExpectSlot(i, i);
  api::Lease full;
  ASSERT_EQ(Acquire(3, 1, full), INFERSCALE_OK);
  EXPECT_EQ(slots_[0].payload, nullptr);
  EXPECT_EQ(slots_[0].stamp, nullptr);
  lease.reset();
  ASSERT_EQ(Acquire(3, 1, full), INFERSCALE_OK);
  ExpectSlot(0, 3);
  const inferscale_arena_stats_data stats = Stats();
  EXPECT_EQ(stats.budget_bytes, 3 * kSlab);
  EXPECT_EQ(stats.used_bytes, 3 * kSlab);
  EXPECT_EQ(stats.pinned_bytes, kSlab);
  EXPECT_EQ(stats.records, 3u);
  EXPECT_EQ(stats.hits, 0u);
  EXPECT_EQ(stats.misses, 5u);
  EXPECT_EQ(stats.loaded_bytes, 4 * kBytes);
  EXPECT_EQ(stats.evicted, 1u);
  EXPECT_EQ(stats.wiped, 0u);
  EXPECT_EQ(stats.refused, 1u);
}

TEST_F(ArenaApi, PrefetchedRecordsAreHits) {
  ASSERT_EQ(inferscale_arena_prefetch(arena_.get(), records_.data(), 2), INFERSCALE_OK);
  ASSERT_EQ(inferscale_arena_finish(arena_.get()), INFERSCALE_OK);
  api::Lease lease;
  ASSERT_EQ(Acquire(0, 2, lease), INFERSCALE_OK);
  EXPECT_EQ(Stats().hits, 2u);
}

TEST_F(ArenaApi, EvictedBytesAreOverwrittenWhenTheLeaseEnds) {
  api::Lease lease;
  ASSERT_EQ(Acquire(0, 2, lease), INFERSCALE_OK);
  const auto* bytes = static_cast<const uint8_t*>(slots_[0].payload);
  const auto* other = static_cast<const uint8_t*>(slots_[1].payload);
  uint32_t gone = 9;
  ASSERT_EQ(inferscale_arena_evict(arena_.get(), host_[0].stamp.id, &gone), INFERSCALE_OK);
  EXPECT_EQ(gone, 0u);
  EXPECT_EQ(bytes[0], 1);
  lease.reset();
  EXPECT_EQ(bytes[0], 0);
  EXPECT_EQ(other[0], 2);
  ASSERT_EQ(inferscale_arena_clear(arena_.get(), &gone), INFERSCALE_OK);
  EXPECT_EQ(gone, 1u);
  EXPECT_EQ(other[0], 0);
  EXPECT_EQ(inferscale_arena_evict(arena_.get(), host_[0].stamp.id, nullptr), INFERSCALE_OK);
  EXPECT_EQ(Stats().wiped, 2u);
}

TEST_F(ArenaApi, AChangedOriginGetsNoStamp) {
  ++host_[1].stamp.generation;
  api::Lease lease;
  ASSERT_EQ(Acquire(0, 2, lease), INFERSCALE_OK);
  EXPECT_EQ(slots_[0].stamp->generation, 1u);
  EXPECT_EQ(slots_[1].stamp->generation, 0u);
}

TEST_F(ArenaApi, MemoryGoesWithTheLastLease) {
  api::Lease lease;
  ASSERT_EQ(Acquire(0, 1, lease), INFERSCALE_OK);
  inferscale_arena* handle = arena_.get();
  arena_.reset();
  device_.reset();
  ExpectSlot(0, 0);
  inferscale_arena_stats_data stats{.struct_bytes = sizeof stats};
  EXPECT_EQ(inferscale_arena_stats(handle, &stats), INFERSCALE_NOT_FOUND);
}

TEST_F(ArenaApi, RefusesWhatIsWrong) {
  api::Lease lease;
  inferscale_slot slot{};
  inferscale_lease* handle = nullptr;
  const auto refused = [&](inferscale_arena_record record, inferscale_status status) {
    EXPECT_EQ(inferscale_arena_acquire(arena_.get(), &record, 1, &slot, &handle), status);
    EXPECT_EQ(inferscale_arena_prefetch(arena_.get(), &record, 1), status);
    EXPECT_NE(std::string(inferscale_last_error()), "");
  };
  inferscale_arena_record record = records_[0];
  record.payload = nullptr;
  refused(record, INFERSCALE_INVALID_ARGUMENT);
  record = records_[0], record.bytes = 8;
  refused(record, INFERSCALE_INVALID_ARGUMENT);
  record = records_[0], record.stamp.generation = 0;
  refused(record, INFERSCALE_INVALID_ARGUMENT);
  record = records_[0], record.bytes = uint64_t{1} << 40;
  refused(record, INFERSCALE_TOO_LARGE);
  record = records_[0];
  record.origin = reinterpret_cast<const inferscale_stamp*>(reinterpret_cast<uintptr_t>(record.origin) + 8);
  refused(record, INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_arena_acquire(arena_.get(), nullptr, 1, &slot, &handle), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_arena_acquire(arena_.get(), records_.data(), 1, nullptr, &handle), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_arena_acquire(arena_.get(), records_.data(), 1, &slot, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_arena_acquire(arena_.get(), records_.data(), 1u << 20, &slot, &handle), INFERSCALE_TOO_LARGE);
  EXPECT_EQ(inferscale_arena_evict(arena_.get(), nullptr, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_arena_stats(arena_.get(), nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(handle, nullptr);
  inferscale_arena* out = nullptr;
  EXPECT_EQ(inferscale_arena_open(device_.get(), kSlab - 1, nullptr, &out), INFERSCALE_NO_SPACE);    // no slab
  EXPECT_EQ(inferscale_arena_open(device_.get(), kSlab, &slot, &out), INFERSCALE_INVALID_ARGUMENT);  // a stream
  EXPECT_EQ(inferscale_arena_open(device_.get(), kSlab, nullptr, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(out, nullptr);
  EXPECT_EQ(Stats().records, 0u);
}

TEST_F(ArenaApi, TwoThreads) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 2; ++t) {
    threads.emplace_back([this, t] {
      for (uint32_t i = 0; i < 200; ++i) {
        const uint32_t record = (i * 5 + t) % 6;
        inferscale_slot slot{};
        api::Lease lease;
        ASSERT_EQ(inferscale_arena_acquire(arena_.get(), &records_[record], 1, &slot, api::Into(lease)), INFERSCALE_OK);
        ASSERT_NE(slot.payload, nullptr);  // of three slabs, the other thread has one
        ASSERT_EQ(*static_cast<const uint8_t*>(slot.payload), record + 1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Stats().pinned_bytes, 0u);
}

}  // namespace
}  // namespace inferscale::capi
