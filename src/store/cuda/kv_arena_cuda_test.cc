// The arena on a device: what its streams do is what the CPU twin does (kv_arena_test.cc has the logic).
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <vector>

#include "kernels/cuda/device_test_util.h"
#include "store/cuda/device_arena_memory.h"
#include "store/kv_arena.h"

namespace inferscale {
namespace {

using kernels::RecordStamp;

// Records in pinned host memory: stamp, then payload.
class PinnedRecords {
 public:
  PinnedRecords(size_t count, uint64_t bytes) : bytes_(bytes), pitch_(kernels::kStampBytes + bytes) {
    EXPECT_EQ(cudaHostAlloc(reinterpret_cast<void**>(&data_), count * pitch_, cudaHostAllocMapped), cudaSuccess);
    for (size_t i = 0; i < count; ++i) {
      Stamp(i) = {{i + 1, ~i}, 1, i + 1};
      for (uint64_t b = 0; b < bytes; ++b) Payload(i)[b] = static_cast<uint8_t>(b * 31 + i * 7 + 1);
    }
  }
  ~PinnedRecords() { cudaFreeHost(data_); }
  PinnedRecords(const PinnedRecords&) = delete;
  PinnedRecords& operator=(const PinnedRecords&) = delete;

  RecordStamp& Stamp(size_t i) { return *reinterpret_cast<RecordStamp*>(data_ + i * pitch_); }
  uint8_t* Payload(size_t i) { return data_ + i * pitch_ + kernels::kStampBytes; }
  ArenaRecord Record(size_t i) { return {Stamp(i), Payload(i), bytes_, &Stamp(i)}; }

 private:
  uint64_t bytes_, pitch_;
  uint8_t* data_ = nullptr;
};

// A copy of a slot on the compute stream, as a launch would read it.
struct Seen {
  RecordStamp stamp;
  std::vector<uint8_t> bytes;
};
void Read(const ArenaSlot& slot, cudaStream_t compute, Seen& seen) {
  ASSERT_EQ(cudaMemcpyAsync(&seen.stamp, slot.stamp, sizeof seen.stamp, cudaMemcpyDeviceToHost, compute), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(seen.bytes.data(), slot.payload, seen.bytes.size(), cudaMemcpyDeviceToHost, compute),
            cudaSuccess);
}

constexpr uint64_t kBytes = 5 * kArenaSlabBytes - kernels::kStampBytes;

TEST(KvArenaCuda, UsesSeeTheirRecords) {
  INFERSCALE_NEEDS_DEVICE();
  cudaStream_t compute;
  ASSERT_EQ(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking), cudaSuccess);
  PinnedRecords records(100, kBytes);
  {
    KvArena arena(*MakeDeviceArenaMemory(40 * 5 * kArenaSlabBytes, compute));
    std::mt19937 random(1);
    for (int step = 0; step < 60; ++step) {
      std::vector<size_t> numbers;
      std::vector<ArenaRecord> asked;
      std::vector<Seen> seen(20);
      for (Seen& s : seen) {
        s.bytes.resize(kBytes);
        numbers.push_back(random() % 100);
        asked.push_back(records.Record(numbers.back()));
      }
      {
        Result<ArenaLease> lease = arena.Acquire(asked);
        ASSERT_TRUE(lease.has_value()) << lease.error().message;
        for (size_t i = 0; i < seen.size(); ++i) Read(lease->slots()[i], compute, seen[i]);
      }
      if (step % 7 == 0) {
        ASSERT_TRUE(arena.Evict(asked[0].stamp.id).has_value());
      }
      ASSERT_EQ(cudaStreamSynchronize(compute), cudaSuccess);
      for (size_t i = 0; i < seen.size(); ++i) {
        ASSERT_EQ(seen[i].stamp, records.Stamp(numbers[i]));
        ASSERT_EQ(std::memcmp(seen[i].bytes.data(), records.Payload(numbers[i]), kBytes), 0) << step << " " << i;
      }
    }
    EXPECT_GT(arena.stats().evicted, 100u);
  }
  cudaStreamDestroy(compute);
}

TEST(KvArenaCuda, EvictedBytesAreOverwritten) {
  INFERSCALE_NEEDS_DEVICE();
  PinnedRecords records(1, kBytes);
  std::unique_ptr<ArenaMemory> memory = *MakeDeviceArenaMemory(8 * kArenaSlabBytes, nullptr);
  const uint8_t* base = memory->base();
  std::vector<uint8_t> all(memory->size());
  KvArena arena(std::move(memory));
  const ArenaRecord record = records.Record(0);
  ASSERT_TRUE(arena.Prefetch({&record, 1}));
  ASSERT_TRUE(arena.Finish());
  ASSERT_EQ(cudaMemcpy(all.data(), base, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(std::memcmp(all.data() + kernels::kStampBytes, record.payload, kBytes), 0);
  EXPECT_TRUE(*arena.Evict(record.stamp.id));
  ASSERT_TRUE(arena.Finish());
  ASSERT_EQ(cudaMemcpy(all.data(), base, all.size(), cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(all, std::vector<uint8_t>(all.size()));
}

TEST(KvArenaCuda, AChangedOriginIsNeverStamped) {
  INFERSCALE_NEEDS_DEVICE();
  PinnedRecords records(2, kBytes);
  KvArena arena(*MakeDeviceArenaMemory(16 * kArenaSlabBytes, nullptr));
  ArenaRecord asked[] = {records.Record(0), records.Record(1)};
  ++records.Stamp(0).generation;
  Result<ArenaLease> lease = arena.Acquire(asked);
  ASSERT_TRUE(lease.has_value());
  std::vector<Seen> seen(2, Seen{{}, std::vector<uint8_t>(kBytes)});
  for (size_t i = 0; i < 2; ++i) Read(lease->slots()[i], nullptr, seen[i]);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(seen[0].stamp, RecordStamp());
  EXPECT_EQ(seen[1].stamp, asked[1].stamp);
}

TEST(KvArenaCuda, SaysThatTheBudgetDoesNotFit) {
  INFERSCALE_NEEDS_DEVICE();
  const auto memory = MakeDeviceArenaMemory(uint64_t{1} << 50, nullptr);
  ASSERT_FALSE(memory.has_value());
  EXPECT_EQ(memory.error().code, ErrorCode::kNoSpace);
  EXPECT_NE(memory.error().message.find("MiB free"), std::string::npos);
}

}  // namespace
}  // namespace inferscale
