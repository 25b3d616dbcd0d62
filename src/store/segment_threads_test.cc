// Readers, appenders, a destroyer and a compactor at once. What has a row and is not being destroyed reads right.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "store/segment_store_test_util.h"

namespace inferscale {
namespace {

class Traffic {
 public:
  explicit Traffic(SegmentStore* store) : store_(*store) {}

  void Append(int count);
  void Destroy(uint64_t seed);
  void Compact();
  void Read(uint64_t seed);

  std::atomic<bool> stop{false};
  std::atomic<uint64_t> read{0}, wrong{0}, failed{0};
  std::map<uint64_t, SegmentLocation> rows;  // guarded by mutex_ while there are threads

 private:
  Result<std::vector<StoredRecord>> Move(std::span<const RecordMove> moves);

  SegmentStore& store_;
  std::atomic<uint64_t> next_{1};
  std::mutex mutex_;
};

void Traffic::Append(int count) {
  for (int i = 0; i < count; ++i) {
    const uint64_t record = next_++;
    const auto location = store_.Append(record, TestRecord(record, 500 + record * 37 % 9000));
    if (!location || !store_.Sync()) {
      ++failed;
      continue;
    }
    std::lock_guard lock(mutex_);
    // A compaction may have moved it when there was no row to change yet: as after a crash, it is given up.
    if (store_.Read(record, *location)) rows[record] = *location;
  }
}

void Traffic::Destroy(uint64_t seed) {
  std::mt19937_64 random(seed);
  while (!stop) {
    StoredRecord victim;
    {
      std::lock_guard lock(mutex_);
      if (rows.size() < 50) continue;
      auto at = rows.begin();
      std::advance(at, random() % rows.size());
      victim = {at->first, at->second};
      rows.erase(at);
    }
    if (!store_.Destroy({&victim, 1})) ++failed;
  }
}

Result<std::vector<StoredRecord>> Traffic::Move(std::span<const RecordMove> moves) {
  std::vector<StoredRecord> dead;
  std::lock_guard lock(mutex_);
  for (const RecordMove& move : moves) {
    const auto row = rows.find(move.record);
    if (row != rows.end() && row->second == move.from) {
      row->second = move.to;
    } else {
      dead.push_back({move.record, move.to});
    }
  }
  return dead;
}

void Traffic::Compact() {
  while (!stop) {
    const auto report = store_.Compact(0.5, [this](std::span<const RecordMove> moves) { return Move(moves); });
    // A record that is between the two steps of its erasure looks damaged; it has no row any more.
    if (!report) ++failed;
  }
}

void Traffic::Read(uint64_t seed) {
  std::mt19937_64 random(seed);
  while (!stop) {
    std::vector<ReadRequest> requests;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [record, location] : rows)
        if (random() % 8 == 0) requests.push_back({record, location, {}});
    }
    const auto results = store_.ReadBatch(requests);
    for (size_t i = 0; i < results.size(); ++i) {
      if (results[i]) {
        ++read;
        wrong += results[i]->view() != TestRecord(requests[i].record, requests[i].location.bytes);
      } else {  // destroyed or moved since
        failed += results[i].error().code != ErrorCode::kNotFound && results[i].error().code != ErrorCode::kCorrupt;
      }
    }
  }
}

class SegmentThreadsTest : public testing::TestWithParam<bool> {};

TEST_P(SegmentThreadsTest, ReadersNeverSeeWrongBytes) {
  const TestFolder folder("segment_threads", On::kMemory);
  auto store =
      *SegmentStore::Open({.folder = folder.path(), .segment_bytes = 128 << 10, .threads = 2, .io_uring = GetParam()});
  Traffic traffic(store.get());
  std::vector<std::thread> writers, others;
  for (int i = 0; i < 2; ++i) writers.emplace_back([&] { traffic.Append(300); });
  others.emplace_back([&] { traffic.Destroy(3); });
  others.emplace_back([&] { traffic.Compact(); });
  for (uint64_t seed = 1; seed <= 3; ++seed) others.emplace_back([&, seed] { traffic.Read(seed); });
  for (std::thread& writer : writers) writer.join();
  traffic.stop = true;
  for (std::thread& other : others) other.join();
  EXPECT_EQ(traffic.wrong, 0u);
  EXPECT_EQ(traffic.failed, 0u);
  EXPECT_GT(traffic.read, 100u);
  for (const auto& [record, location] : traffic.rows) EXPECT_TRUE(store->Read(record, location)) << record;
  EXPECT_TRUE(store->Verify()->empty());
}

INSTANTIATE_TEST_SUITE_P(IoUring, SegmentThreadsTest, testing::Bool());

}  // namespace
}  // namespace inferscale
