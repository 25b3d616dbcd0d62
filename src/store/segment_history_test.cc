// Random histories of the segment store against a map, with restarts, power cuts and compactions.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/file_ops_test_util.h"
#include "store/segment_format.h"
#include "store/segment_store_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

// What a caller with a catalog knows. Rows and list are taken as durable at once, as the catalog's transactions are.
struct Model {
  std::map<uint64_t, SegmentLocation> rows;  // appended and synced
  std::vector<StoredRecord> unsynced;
  std::vector<StoredRecord> erase_list;        // not destroyed yet
  std::map<uint64_t, SegmentLocation> erased;  // destroyed
};

StoredRecord Any(const std::map<uint64_t, SegmentLocation>& rows, std::mt19937_64& random) {
  auto at = rows.begin();
  std::advance(at, random() % rows.size());
  return {at->first, at->second};
}

MoveRecords MoverOf(Model& model) {
  return [&model](std::span<const RecordMove> moves) -> Result<std::vector<StoredRecord>> {
    std::vector<StoredRecord> dead;
    for (const RecordMove& move : moves) {
      const auto row = model.rows.find(move.record);
      if (row != model.rows.end() && row->second == move.from) {
        row->second = move.to;
      } else {
        dead.push_back({move.record, move.to});
      }
    }
    return dead;
  };
}

size_t AnySize(std::mt19937_64& random) {
  const size_t edges[] = {1, 4031, 4032, 4033, 8128};
  return random() % 4 == 0 ? edges[random() % 5] : 1 + random() % 12'000;
}

void SyncModel(SegmentStore& store, Model& model) {
  ASSERT_TRUE(store.Sync());
  for (const StoredRecord& stored : model.unsynced) model.rows[stored.record] = stored.location;
  model.unsynced.clear();
}

void DestroyOne(SegmentStore& store, Model& model, std::mt19937_64& random) {
  if (model.rows.empty()) return;
  const StoredRecord stored = Any(model.rows, random);
  model.rows.erase(stored.record);
  model.erase_list.push_back(stored);
  ASSERT_TRUE(store.Destroy(model.erase_list));
  model.erase_list.clear();
  model.erased[stored.record] = stored.location;
}

void CheckAll(SegmentStore& store, const Model& model) {
  std::vector<ReadRequest> requests;
  for (const auto& [record, location] : model.rows) requests.push_back({record, location, {}});
  const auto results = store.ReadBatch(requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    ASSERT_TRUE(results[i].has_value()) << requests[i].record << ": " << results[i].error().message;
    ASSERT_TRUE(results[i]->view() == TestRecord(requests[i].record, requests[i].location.bytes));
  }
  for (const auto& [record, location] : model.erased) ASSERT_FALSE(store.Read(record, location).has_value());
}

// What an owner does after Open (segment_store.h).
void Reconcile(SegmentStore& store, const OpenReport& report, Model& model) {
  std::set<uint64_t> found;
  for (const StoredRecord& stored : report.records) {
    const auto row = model.rows.find(stored.record);
    if (row != model.rows.end() && row->second == stored.location)
      found.insert(stored.record);
    else
      model.erase_list.push_back(stored);
  }
  ASSERT_EQ(found.size(), model.rows.size()) << "a durable record was not found";
  ASSERT_TRUE(store.Destroy(model.erase_list));
  model.erase_list.clear();
}

TEST(SegmentHistoryTest, BehavesLikeAMap) {
  const TestFolder folder("segment_history");
  const SegmentStoreOptions options{.folder = folder.path(), .segment_bytes = 60 << 10, .threads = 2};
  std::mt19937_64 random(1);
  Model model;
  uint64_t next = 1, compacted = 0;
  auto store = *SegmentStore::Open(options);
  for (int step = 0; step < 4000; ++step) {
    const uint64_t dice = random() % 100;
    if (dice < 45) {
      const size_t bytes = AnySize(random);
      const auto location = store->Append(next, TestRecord(next, bytes));
      ASSERT_TRUE(location.has_value());
      model.unsynced.push_back({next++, *location});
    } else if (dice < 60) {
      SyncModel(*store, model);
    } else if (dice < 92) {
      DestroyOne(*store, model, random);
    } else if (dice < 96) {
      const auto report = store->Compact(0.6, MoverOf(model));
      ASSERT_TRUE(report.has_value()) << report.error().message;
      EXPECT_TRUE(report->damaged.empty());
      compacted += report->records;
      // Records that were not synced moved too, and their rows do not exist yet: as after a crash of their writer.
      std::erase_if(model.unsynced, [&](const StoredRecord& s) { return !store->Read(s.record, s.location); });
    } else {
      store.reset();
      OpenReport report;
      store = *SegmentStore::Open(options, &report);
      model.unsynced.clear();
      EXPECT_TRUE(report.damaged.empty());
      Reconcile(*store, report, model);
    }
    if (step % 50 == 0) CheckAll(*store, model);
  }
  EXPECT_GT(compacted, 20u);
  CheckAll(*store, model);
  SyncModel(*store, model);
  const SegmentStoreStats stats = store->stats();
  EXPECT_EQ(stats.records, model.rows.size());
  uint64_t live = 0;
  for (const auto& [record, location] : model.rows) live += location.bytes;
  EXPECT_EQ(stats.live_bytes, live);
  EXPECT_TRUE(store->Verify()->empty());
}

// A history and, for each moment of it, what its owner knew then.
struct Recorded {
  std::vector<FileOp> ops;
  std::vector<std::pair<size_t, Model>> known;  // (operations done, model), ascending
};

Recorded Record(uint64_t seed, int steps, bool can_punch) {
  const TestFolder folder("segment_recorded", On::kMemory);
  FileOpLog log;
  RecordingFiles files(folder.path(), &log);
  files.can_punch = can_punch;
  std::mt19937_64 random(seed);
  Recorded recorded;
  Model model;
  const auto note = [&] { recorded.known.emplace_back(log.size(), model); };
  note();
  auto store = *SegmentStore::Open(
      {.folder = folder.path() / "kv", .segment_bytes = 40 << 10, .threads = 1, .io_uring = false, .files = &files});
  const MoveRecords mover = [&](std::span<const RecordMove> moves) {
    auto dead = MoverOf(model)(moves);
    note();  // between the rows' change and the old segment's end
    return dead;
  };
  for (int step = 1; step <= steps; ++step) {
    const uint64_t dice = random() % 100;
    if (dice < 50) {
      const auto id = static_cast<uint64_t>(step);
      model.unsynced.push_back({id, *store->Append(id, TestRecord(id, AnySize(random)))});
    } else if (dice < 70) {
      SyncModel(*store, model);
    } else if (dice < 95 && !model.rows.empty()) {
      const StoredRecord stored = Any(model.rows, random);
      model.rows.erase(stored.record);
      model.erase_list.push_back(stored);
      note();  // the catalog's transaction comes first
      EXPECT_TRUE(store->Destroy(model.erase_list));
      model.erase_list.clear();
      model.erased[stored.record] = stored.location;
    } else {
      EXPECT_TRUE(store->Compact(0.7, mover));
      model.unsynced.clear();
    }
    note();
  }
  recorded.ops = log.Copy();
  return recorded;
}

void CheckCut(const Recorded& recorded, size_t cut, Unsynced unsynced) {
  const TestFolder folder("segment_cut", On::kMemory);
  MakeAfterPowerCut(recorded.ops, cut, unsynced, cut * 3 + static_cast<size_t>(unsynced), folder.path() / "disk");
  const auto after = std::upper_bound(recorded.known.begin(), recorded.known.end(), cut,
                                      [](size_t n, const auto& known) { return n < known.first; });
  Model model = std::prev(after)->second;
  OpenReport report;
  const SegmentStoreOptions options{
      .folder = folder.path() / "disk" / "kv", .segment_bytes = 40 << 10, .threads = 1, .io_uring = false};
  auto store = SegmentStore::Open(options, &report);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  EXPECT_TRUE(report.lost_segments.empty());
  for (const StoredRecord& stored : report.records) {
    EXPECT_FALSE(model.erased.contains(stored.record)) << "record " << stored.record << " came back";
  }
  Reconcile(**store, report, model);
  CheckAll(**store, model);
  EXPECT_EQ((*store)->stats().records, model.rows.size());
  EXPECT_TRUE((*store)->Verify()->empty());
  const std::string disk = SlurpAll(folder.path());
  for (const auto& [record, location] : model.erased) {
    const std::string content = TestRecord(record, location.bytes);
    for (size_t at = 0; at + 8 <= content.size() && at < 4096 * 2; at += 448)
      EXPECT_EQ(disk.find(content.substr(at, 64)), std::string::npos) << "bytes of record " << record << " are left";
  }
  // And it can be written again.
  const auto location = (*store)->Append(1'000'000, TestRecord(1'000'000, 5000));
  ASSERT_TRUE(location.has_value() && (*store)->Sync());
  EXPECT_TRUE((*store)->Read(1'000'000, *location).has_value());
}

class SegmentCrashTest : public testing::TestWithParam<std::tuple<Unsynced, bool>> {};

TEST_P(SegmentCrashTest, EveryCutKeepsWhatWasSyncedAndNothingDestroyed) {
  const auto [unsynced, can_punch] = GetParam();
  const Recorded recorded = Record(can_punch ? 5 : 6, 130, can_punch);
  ASSERT_GT(recorded.ops.size(), 200u);
  for (size_t cut = 0; cut <= recorded.ops.size() && !HasFailure(); ++cut) {
    SCOPED_TRACE("power cut after operation " + std::to_string(cut));
    CheckCut(recorded, cut, unsynced);
  }
  EXPECT_GT(recorded.known.back().second.erased.size(), 10u);
  RecordProperty("cuts", static_cast<int>(recorded.ops.size() + 1));
}

INSTANTIATE_TEST_SUITE_P(Cuts, SegmentCrashTest,
                         testing::Combine(testing::Values(Unsynced::kDropped, Unsynced::kKept, Unsynced::kTorn),
                                          testing::Bool()));

}  // namespace
}  // namespace inferscale
