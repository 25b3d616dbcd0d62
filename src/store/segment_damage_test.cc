// The segment format, and damage of every kind to its files.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/file.h"
#include "base/hash.h"
#include "store/segment_format.h"
#include "store/segment_store_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

// tests/data/segment_v1.seg: format version 1, byte for byte, for ever. Written by this test, run once with
// INFERSCALE_WRITE_GOLDEN=1. Epoch 0x1122334455667788; record 7 of 100 bytes, record 8 of 5,000 destroyed, record 9
// of 4,032, which fills its block.
std::string GoldenBytes() {
  const SegmentHeader segment{42, 0x1122334455667788};
  std::string file = EncodeSegmentHeader(segment);
  const auto add = [&](uint64_t record, size_t bytes, EntryState state) {
    const bool live = state == EntryState::kLive;
    const std::string content = live ? TestRecord(record, bytes) : std::string(bytes, '\0');
    const uint64_t checksum = live ? Checksum64(content.data(), content.size()) : 0;
    const uint64_t offset = file.size();
    const EntryHeaderBytes header = EncodeEntryHeader({record, bytes, checksum, state}, segment, offset);
    file.append(header.data(), header.size());
    file += content;
    file.resize(offset + ExtentBytes(bytes), '\0');
  };
  add(7, 100, EntryState::kLive);
  add(8, 5000, EntryState::kDestroyed);
  add(9, 4032, EntryState::kLive);
  return file;
}

TEST(SegmentFormatTest, GoldenFileIsByteExactAndReadable) {
  const fs::path golden = fs::path(INFERSCALE_TEST_DATA) / "segment_v1.seg";
  if (std::getenv("INFERSCALE_WRITE_GOLDEN") != nullptr) Spill(golden, GoldenBytes());
  EXPECT_TRUE(Slurp(golden) == GoldenBytes());
  const TestFolder folder("segment_golden");
  fs::copy_file(golden, folder.path() / "0000000042.seg");
  OpenReport report;
  auto store = SegmentStore::Open({.folder = folder.path()}, &report);
  ASSERT_TRUE(store.has_value()) << store.error().message;
  const std::vector<StoredRecord> expected = {{7, {42, 4096, 100}}, {9, {42, 16384, 4032}}};
  EXPECT_EQ(report.records, expected);
  for (const StoredRecord& stored : expected)
    EXPECT_TRUE((*store)->Read(stored.record, stored.location)->view() ==
                TestRecord(stored.record, stored.location.bytes));
}

// The document's offsets, read without the code that wrote them.
TEST(SegmentFormatTest, FieldsLieWhereTheDocumentSays) {
  const std::string bytes = GoldenBytes();
  const auto number = [&](size_t at, size_t count) {
    uint64_t value = 0;
    for (size_t i = count; i-- > 0;) value = value << 8 | static_cast<uint8_t>(bytes[at + i]);
    return value;
  };
  EXPECT_EQ(bytes.substr(0, 8), "\x89ISSG\r\n\x1A");
  EXPECT_EQ(number(8, 4), 1u);
  EXPECT_EQ(number(12, 4), 4096u);
  EXPECT_EQ(number(16, 8), 42u);
  EXPECT_EQ(number(24, 8), 0x1122334455667788u);
  EXPECT_EQ(number(4088, 8), Checksum64(bytes.data(), 4088));
  EXPECT_EQ(bytes.substr(4096, 8), "\x89ISEN\r\n\x1A");
  EXPECT_EQ(number(4104, 4), 1u);
  EXPECT_EQ(number(4112, 8), 7u);
  EXPECT_EQ(number(4120, 8), 100u);
  EXPECT_EQ(number(4128, 8), 4096u);
  EXPECT_EQ(number(4136, 8), 0x1122334455667788u);
  EXPECT_EQ(number(4144, 8), Checksum64(bytes.data() + 4160, 100));
  EXPECT_EQ(number(4152, 8), Checksum64(bytes.data() + 4096, 56));
  EXPECT_EQ(number(8200, 4), 2u);
  EXPECT_EQ(number(8240, 8), 0u);
  EXPECT_EQ(bytes.size(), 20480u);
}

TEST(SegmentFormatTest, NamesAreNumbersAndBack) {
  EXPECT_EQ(SegmentFileName(7), "0000000007.seg");
  for (const uint64_t number : {uint64_t{1}, uint64_t{9'999'999'999}, uint64_t{10'000'000'000}})
    EXPECT_EQ(SegmentNumberOf(SegmentFileName(number)), number);
  for (const char* name : {"7.seg", "0000000000.seg", "0000000007.seg.tmp", "000000007x.seg", "",
                           "99999999999999999999999.seg", "00000000007.seg"})
    EXPECT_EQ(SegmentNumberOf(name), 0u) << name;
}

// Every byte of a file: reads give the right bytes or an error, and Verify or Open says that something is wrong.
TEST(SegmentDamageTest, EveryFlippedByteIsDetected) {
  const TestFolder folder("segment_flip", On::kMemory);
  const std::string good = GoldenBytes();
  const std::vector<StoredRecord> records = {{7, {42, 4096, 100}}, {9, {42, 16384, 4032}}};
  const fs::path path = folder.path() / "0000000042.seg";
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    Spill(path, bad);
    OpenReport report;
    auto store = SegmentStore::Open({.folder = folder.path(), .threads = 1, .io_uring = false}, &report);
    ASSERT_TRUE(store.has_value()) << at << store.error().message;
    for (const StoredRecord& stored : records) {
      const auto read = (*store)->Read(stored.record, stored.location);
      if (read) {
        ASSERT_TRUE(read->view() == TestRecord(stored.record, stored.location.bytes)) << at;
      }
    }
    // In a destroyed entry the flip is undone by Open: nothing is lost, and it is reported nowhere.
    const bool told = !report.damaged.empty() || !report.lost_segments.empty() || report.truncated_bytes > 0;
    const bool in_destroyed_content = at >= 8192 + 64 && at < 16384;
    const bool version = at >= 8 && at < 12;
    ASSERT_EQ(told, !in_destroyed_content) << at;
    ASSERT_EQ(fs::exists(path), at >= 4096 || version) << at;
  }
}

// The same while the store is open: Verify finds it, and Read never gives wrong bytes.
TEST(SegmentDamageTest, EveryByteThatFlipsWhileTheStoreIsOpenIsDetected) {
  const TestFolder folder("segment_flip_open", On::kMemory);
  const std::vector<StoredRecord> records = {{7, {42, 4096, 100}}, {9, {42, 16384, 4032}}};
  const fs::path path = folder.path() / "0000000042.seg";
  Spill(path, GoldenBytes());
  auto store = *SegmentStore::Open({.folder = folder.path(), .threads = 1, .io_uring = false});
  auto file = *PosixFiles().Open(path, OpenMode::kReadWrite);
  const std::string good = GoldenBytes();
  for (size_t at = 0; at < good.size(); ++at) {
    const char bad = static_cast<char>(good[at] ^ (1 << at % 8));
    std::string_view piece(&bad, 1);
    ASSERT_TRUE(file->Write(at, {&piece, 1}));
    ASSERT_FALSE(store->Verify()->empty()) << at;
    for (const StoredRecord& stored : records) {
      const auto read = store->Read(stored.record, stored.location);
      const uint64_t first = stored.location.offset, end = first + 64 + stored.location.bytes;
      ASSERT_EQ(read.has_value(), at < first || at >= end) << at;
      if (!read) {
        ASSERT_EQ(read.error().code, ErrorCode::kCorrupt);
      }
    }
    piece = std::string_view(&good[at], 1);
    ASSERT_TRUE(file->Write(at, {&piece, 1}));
  }
  EXPECT_TRUE(store->Verify()->empty());
}

TEST(SegmentDamageTest, EveryShorterFileIsRepaired) {
  const TestFolder folder("segment_short", On::kMemory);
  const fs::path path = folder.path() / "0000000042.seg";
  const std::string good = GoldenBytes();
  for (size_t bytes = 0; bytes < good.size(); bytes += 37) {
    Spill(path, good.substr(0, bytes));
    OpenReport report;
    auto store = SegmentStore::Open({.folder = folder.path(), .threads = 1, .io_uring = false}, &report);
    ASSERT_TRUE(store.has_value()) << bytes;
    EXPECT_EQ(report.records.size(), bytes >= 8192 ? 1u : 0u) << bytes;
    EXPECT_TRUE((*store)->Verify()->empty()) << bytes;
    const auto location = (*store)->Append(50, TestRecord(50, 3000));
    ASSERT_TRUE(location.has_value());
    EXPECT_TRUE((*store)->Read(50, *location)->view() == TestRecord(50, 3000));
    store->reset();
    fs::remove_all(folder.path());
    fs::create_directories(folder.path());
  }
}

TEST(SegmentDamageTest, ALaterVersionIsLeftAlone) {
  const TestFolder folder("segment_version");
  std::string later = GoldenBytes();
  later[8] = 2;
  Spill(folder.path() / "0000000042.seg", later);
  OpenReport report;
  auto store = SegmentStore::Open({.folder = folder.path()}, &report);
  ASSERT_TRUE(store.has_value());
  EXPECT_EQ(report.lost_segments, std::vector<uint64_t>{42});
  EXPECT_EQ((*store)->Append(1, "abc")->segment, 43u);
  EXPECT_TRUE(Slurp(folder.path() / "0000000042.seg") == later);
}

}  // namespace
}  // namespace inferscale
