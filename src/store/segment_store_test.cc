#include "store/segment_store.h"

#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>
#include <thread>

#include "base/file_ops_test_util.h"
#include "store/segment_format.h"
#include "store/segment_store_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<SegmentStore> OpenStore(const SegmentStoreOptions& options, OpenReport* report = nullptr) {
  auto store = SegmentStore::Open(options, report);
  EXPECT_TRUE(store.has_value()) << store.error().message;
  return store ? std::move(*store) : nullptr;
}

StoredRecord MustAppend(SegmentStore& store, uint64_t record, size_t bytes) {
  const auto location = store.Append(record, TestRecord(record, bytes));
  EXPECT_TRUE(location.has_value()) << location.error().message;
  return {record, location.value_or(SegmentLocation{})};
}

ErrorCode ReadError(SegmentStore& store, const StoredRecord& stored) {
  const auto read = store.Read(stored.record, stored.location);
  EXPECT_FALSE(read.has_value());
  return read ? ErrorCode::kInternal : read.error().code;
}

void ExpectWhole(SegmentStore& store, const StoredRecord& stored) {
  const auto read = store.Read(stored.record, stored.location);
  ASSERT_TRUE(read.has_value()) << stored.record << ": " << read.error().message;
  EXPECT_TRUE(read->view() == TestRecord(stored.record, stored.location.bytes)) << stored.record;
}

TEST(SegmentStoreTest, WhatWasAppendedIsReadBackAlsoAfterReopen) {
  const TestFolder folder("segment_store");
  const SegmentStoreOptions options{.folder = folder.path() / "kv", .segment_bytes = 64 << 10, .threads = 2};
  std::vector<StoredRecord> records;
  {
    auto store = OpenStore(options);
    for (const size_t bytes : {1, 63, 64, 4031, 4032, 4033, 8128, 8129, 50'000, 200'000})
      records.push_back(MustAppend(*store, 100 + records.size(), bytes));
    const std::string text = TestRecord(99, 700);
    const std::vector<std::string_view> pieces = {std::string_view(text).substr(0, 5), "",
                                                  std::string_view(text).substr(5)};
    records.push_back({99, *store->Append(99, pieces)});
    ASSERT_TRUE(store->Sync());
    for (const StoredRecord& stored : records) ExpectWhole(*store, stored);
    EXPECT_GT(store->stats().segments, 2u);
  }
  OpenReport report;
  auto store = OpenStore(options, &report);
  EXPECT_EQ(report.records, records);
  EXPECT_TRUE(report.damaged.empty());
  EXPECT_EQ(report.truncated_bytes, 0u);
  for (const StoredRecord& stored : records) ExpectWhole(*store, stored);
  const auto damaged = store->Verify();
  ASSERT_TRUE(damaged.has_value());
  EXPECT_TRUE(damaged->empty());
}

TEST(SegmentStoreTest, OnlyTheOwnerMayLookAtFolderAndFiles) {
  const TestFolder folder("segment_store");
  auto store = OpenStore({.folder = folder.path() / "a" / "kv"});
  MustAppend(*store, 1, 10);
  struct stat st {};
  ASSERT_EQ(::stat((folder.path() / "a" / "kv").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat((folder.path() / "a" / "kv" / SegmentFileName(1)).c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0600u);
}

TEST(SegmentStoreTest, RefusesWhatIsNoRecordAndWhatIsNotThere) {
  const TestFolder folder("segment_store");
  auto store = OpenStore({.folder = folder.path()});
  EXPECT_EQ(store->Append(1, "").error().code, ErrorCode::kInvalidArgument);
  const StoredRecord stored = MustAppend(*store, 7, 5000);
  EXPECT_EQ(ReadError(*store, {8, stored.location}), ErrorCode::kNotFound);
  EXPECT_EQ(ReadError(*store, {7, {2, stored.location.offset, 5000}}), ErrorCode::kNotFound);
  EXPECT_EQ(ReadError(*store, {7, {1, stored.location.offset + 8192, 5000}}), ErrorCode::kNotFound);
  EXPECT_EQ(ReadError(*store, {7, {1, stored.location.offset + 4096, 5000}}), ErrorCode::kNotFound);  // ends within
  EXPECT_EQ(ReadError(*store, {7, {1, stored.location.offset, 4999}}), ErrorCode::kCorrupt);
  EXPECT_EQ(ReadError(*store, {7, {1, 100, 5000}}), ErrorCode::kCorrupt);
  EXPECT_EQ(ReadError(*store, {7, {1, stored.location.offset, 0}}), ErrorCode::kCorrupt);
  EXPECT_EQ(ReadError(*store, {7, {1, uint64_t{1} << 63, 5000}}), ErrorCode::kCorrupt);
  std::vector<std::byte> small(10);
  const ReadRequest request{7, stored.location, small};
  EXPECT_EQ(store->ReadBatch({&request, 1})[0].error().code, ErrorCode::kInvalidArgument);
}

class SegmentDestroyTest : public testing::TestWithParam<bool> {};

TEST_P(SegmentDestroyTest, NoByteOfADestroyedRecordIsLeft) {
  const TestFolder folder("segment_destroy");
  FileOpLog log;
  RecordingFiles files(folder.path(), &log);
  files.can_punch = GetParam();
  SegmentStoreOptions options{.folder = folder.path() / "kv", .segment_bytes = 100 << 10, .files = &files};
  auto store = OpenStore(options);
  std::vector<StoredRecord> records;
  for (uint64_t i = 1; i <= 6; ++i) records.push_back(MustAppend(*store, i, 30'000));
  ASSERT_EQ(records[3].location.segment, 2u);
  const auto allocated = store->stats().allocated_bytes;
  // Any 16 bytes of any sector would show.
  const auto traces = [&](uint64_t record) {
    const std::string content = TestRecord(record, 30'000), all = SlurpAll(folder.path());
    size_t found = 0;
    for (size_t at = 0; at + 16 <= content.size(); at += 16) found += all.find(content.substr(at, 16)) != all.npos;
    return found;
  };
  EXPECT_EQ(traces(2), 1875u);
  ASSERT_TRUE(store->Destroy(std::span(records).subspan(1, 1)));
  EXPECT_EQ(traces(2), 0u);
  EXPECT_EQ(traces(1), 1875u);
  EXPECT_EQ(store->stats().allocated_bytes, GetParam() ? allocated - (ExtentBytes(30'000) - 4096) : allocated);
  EXPECT_EQ(ReadError(*store, records[1]), ErrorCode::kNotFound);
  ASSERT_TRUE(store->Destroy(std::span(records).subspan(1, 1))) << "it is idempotent";
  EXPECT_EQ(store->stats().records, 5u);
  for (const size_t alive : {0, 2, 3, 4, 5}) ExpectWhole(*store, records[alive]);
  const auto damaged = store->Verify();
  ASSERT_TRUE(damaged.has_value());
  EXPECT_TRUE(damaged->empty());
  // A segment without live records goes.
  ASSERT_TRUE(store->Destroy(std::span(records).subspan(0, 3)));
  EXPECT_FALSE(fs::exists(folder.path() / "kv" / SegmentFileName(1)));
  EXPECT_EQ(ReadError(*store, records[0]), ErrorCode::kNotFound);
  store.reset();
  OpenReport report;
  store = OpenStore(options, &report);
  EXPECT_EQ(report.records.size(), 3u);
}

INSTANTIATE_TEST_SUITE_P(Punch, SegmentDestroyTest, testing::Bool());

// A place on the erase list may have been given to another record since.
TEST(SegmentStoreTest, DestroyingARecordThatIsGoneHarmsNoOther) {
  const TestFolder folder("segment_store");
  auto store = OpenStore({.folder = folder.path()});
  const StoredRecord stored = MustAppend(*store, 5, 100);
  const std::vector<StoredRecord> others = {
      {6, stored.location}, {5, {9, 4096, 100}}, {5, {1, 1 << 20, 100}}, {5, {1, 0, 100}}, {5, {1, 4100, 100}}};
  ASSERT_TRUE(store->Destroy(others));
  ExpectWhole(*store, stored);
  EXPECT_EQ(store->stats().destroyed, 0u);
}

// An entry whose header is damaged can still be erased by its place in the catalog, and its neighbours stay.
TEST(SegmentStoreTest, ADamagedRecordCanBeDestroyed) {
  const TestFolder folder("segment_store");
  const SegmentStoreOptions options{.folder = folder.path(), .segment_bytes = 40 << 10};
  auto store = OpenStore(options);
  const StoredRecord a = MustAppend(*store, 1, 9000), b = MustAppend(*store, 2, 9000), c = MustAppend(*store, 3, 9000);
  const fs::path path = folder.path() / SegmentFileName(1);
  MustAppend(*store, 4, 9000);  // in the next segment: only the newest is repaired by Open
  std::string bytes = Slurp(path);
  bytes[b.location.offset + 20] ^= 1;
  Spill(path, bytes);
  OpenReport report;
  store = OpenStore(options, &report);
  ASSERT_EQ(report.damaged.size(), 1u);
  EXPECT_EQ(report.damaged[0].offset, b.location.offset);
  EXPECT_EQ(report.damaged[0].bytes, ExtentBytes(9000));
  EXPECT_EQ(ReadError(*store, b), ErrorCode::kCorrupt);
  const std::vector<StoredRecord> too_long = {{2, {1, b.location.offset, 900'000}}};
  ASSERT_TRUE(store->Destroy(too_long));
  EXPECT_EQ(SlurpAll(folder.path()).find(TestRecord(2, 9000).substr(8500, 16)), std::string::npos);
  ExpectWhole(*store, a);
  ExpectWhole(*store, c);
  EXPECT_TRUE(store->Verify()->empty());
}

TEST(SegmentStoreTest, TheBudgetIsKept) {
  const TestFolder folder("segment_store");
  auto store = OpenStore({.folder = folder.path(), .budget_bytes = 100 << 10});
  std::vector<StoredRecord> records;
  for (uint64_t i = 1; i <= 4; ++i) records.push_back(MustAppend(*store, i, 20'000));
  const auto full = store->Append(5, TestRecord(5, 20'000));
  ASSERT_FALSE(full.has_value());
  EXPECT_EQ(full.error().code, ErrorCode::kNoSpace);
  EXPECT_LE(store->stats().allocated_bytes, 100u << 10);
  ASSERT_TRUE(store->Destroy(std::span(records).first(2)));
  ExpectWhole(*store, MustAppend(*store, 6, 20'000));
}

TEST(SegmentStoreTest, AFailedSyncIsFinalForAppendsAndNotForReads) {
  const TestFolder folder("segment_store");
  FileOpLog log;
  RecordingFiles files(folder.path(), &log);
  auto store = OpenStore({.folder = folder.path(), .files = &files});
  const StoredRecord stored = MustAppend(*store, 1, 100);
  files.before = [](const FileOp& op) {
    return op.kind == FileOp::Kind::kSync ? Status(Fail(ErrorCode::kIo, "the disk is ill")) : Status{};
  };
  EXPECT_EQ(store->Sync().error().code, ErrorCode::kIo);
  files.before = nullptr;
  EXPECT_EQ(store->Sync().error().code, ErrorCode::kIo);
  EXPECT_EQ(store->Append(2, "abc").error().code, ErrorCode::kIo);
  ExpectWhole(*store, stored);
}

TEST(SegmentStoreTest, ADiskThatIsFullLosesNothing) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a small file system needs root's rights";
  const TestFolder folder("segment_disk_full");
  if (::mount("tmpfs", folder.path().c_str(), "tmpfs", 0, "size=1m,mode=700") != 0) GTEST_SKIP() << "no mount here";
  struct Unmount {
    const fs::path& path;
    ~Unmount() { ::umount2(path.c_str(), MNT_DETACH); }
  } unmount{folder.path()};
  std::vector<StoredRecord> records;
  {
    auto store = OpenStore({.folder = folder.path() / "kv"});
    Error error;
    for (uint64_t i = 1; i < 100 && error.message.empty(); ++i) {
      const auto location = store->Append(i, TestRecord(i, 70'000));
      if (location)
        records.push_back({i, *location});
      else
        error = location.error();
    }
    EXPECT_EQ(error.code, ErrorCode::kNoSpace);
    EXPECT_NE(error.message.find("free some disk space"), std::string::npos) << error.message;
    ASSERT_GT(records.size(), 8u);
    ASSERT_TRUE(store->Sync());
    for (const StoredRecord& stored : records) ExpectWhole(*store, stored);
    // Destroying needs no space, and gives some.
    ASSERT_TRUE(store->Destroy(std::span(records).first(3)));
    records.erase(records.begin(), records.begin() + 3);
    records.push_back(MustAppend(*store, 200, 70'000));
    EXPECT_TRUE(store->Verify()->empty());
  }
  OpenReport report;
  auto store = OpenStore({.folder = folder.path() / "kv"}, &report);
  EXPECT_EQ(report.records, records);
  EXPECT_EQ(report.truncated_bytes, 0u) << "nothing half written was left";
  for (const StoredRecord& stored : records) ExpectWhole(*store, stored);
}

TEST(SegmentStoreTest, ReadsByIoUringAndByThreadsAreEqual) {
  const TestFolder folder("segment_store");
  const SegmentStoreOptions by_ring{.folder = folder.path(), .segment_bytes = 1 << 20, .threads = 2};
  std::vector<ReadRequest> requests;
  {
    auto store = OpenStore(by_ring);
    for (uint64_t i = 1; i <= 300; ++i) {
      const StoredRecord stored = MustAppend(*store, i, 1 + (i * 977) % 40'000);
      requests.push_back({i, stored.location, {}});
    }
    ASSERT_TRUE(store->Destroy(std::vector<StoredRecord>{{10, requests[9].location}}));
  }
  requests[20].record = 9999;                 // another record's place
  requests[30].location.segment = 77;         // no such segment
  requests[40].location.offset = 1ull << 40;  // behind the end
  std::vector<std::byte> own(requests[50].location.bytes);
  SegmentStoreOptions by_threads = by_ring;
  by_threads.io_uring = false;
  auto store = OpenStore(by_ring);
  if (!store->stats().io_uring) GTEST_SKIP() << "the kernel refuses io_uring: both would be the same";
  const auto ring = store->ReadBatch(requests);
  store = OpenStore(by_threads);
  EXPECT_FALSE(store->stats().io_uring);
  requests[50].into = own;
  const auto threads = store->ReadBatch(requests);
  ASSERT_EQ(ring.size(), requests.size());
  for (size_t i = 0; i < ring.size(); ++i) {
    ASSERT_EQ(ring[i].has_value(), threads[i].has_value()) << i;
    const std::set<size_t> bad = {9, 20, 30, 40};
    EXPECT_EQ(ring[i].has_value(), !bad.contains(i)) << i;
    if (!ring[i]) {
      EXPECT_EQ(ring[i].error().code, ErrorCode::kNotFound) << i;
      EXPECT_EQ(threads[i].error().code, ErrorCode::kNotFound) << i;
    } else {
      EXPECT_TRUE(ring[i]->view() == threads[i]->view()) << i;
      EXPECT_TRUE(ring[i]->view() == TestRecord(requests[i].record, requests[i].location.bytes)) << i;
    }
  }
  EXPECT_EQ(threads[50]->bytes().data(), own.data());
}

}  // namespace
}  // namespace inferscale
