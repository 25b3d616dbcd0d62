#include "core/kv_record.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>

#include "base/file.h"
#include "core/kv_record_format.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

KvRecord MakeRecord(const KvShape& shape, Tokens tokens) {
  KvPayload payload(shape, static_cast<uint32_t>(tokens.size()));
  for (size_t i = 0; i < payload.elements(); ++i) payload.data()[i] = static_cast<uint16_t>(i * 40503u >> 3);
  RecordKey key{.name_space = "user:nora",
                .fact_id = "fact-α",
                .content_version = 3,
                .token_ids = std::move(tokens),
                .model_key = {0x0102030405060708, 0x090A0B0C0D0E0F10},
                .encoding = KvEncoding::kF16,
                .calibration_id = {},
                .window_digest = {0x1112131415161718, 0x191A1B1C1D1E1F20}};
  return {std::move(key), std::move(payload)};
}

// tests/data/kv_record_v1.kv is SerializeRecord(GoldenRecord()), byte for byte, for ever: files of version 1 stay
// readable. It was written by this test, run once with INFERSCALE_WRITE_GOLDEN=1.
KvRecord GoldenRecord() {
  return MakeRecord({.layers = 2, .kv_heads = 2, .key_dim = 4, .value_dim = 2}, {7, 0, 49151});
}
std::string GoldenPath() { return std::string(INFERSCALE_TEST_DATA) + "/kv_record_v1.kv"; }

void ExpectEqual(const KvRecord& a, const KvRecord& b) {
  EXPECT_EQ(a.key, b.key);
  EXPECT_EQ(a.payload.shape(), b.payload.shape());
  ASSERT_EQ(a.payload.bytes(), b.payload.bytes());
  EXPECT_EQ(std::memcmp(a.payload.data(), b.payload.data(), a.payload.bytes()), 0);
}

struct TempFolder {
  fs::path path = fs::path(testing::TempDir()) / ("kv_record_test." + std::to_string(::getpid()));
  TempFolder() { fs::create_directories(path); }
  ~TempFolder() { fs::remove_all(path); }
  fs::path Write(const std::string& bytes) const {
    std::ofstream(path / "r.kv", std::ios::binary | std::ios::trunc) << bytes;
    return path / "r.kv";
  }
};

TEST(KvRecordTest, GoldenFileIsByteExact) {
  if (std::getenv("INFERSCALE_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteRecordFile(GoldenPath(), GoldenRecord()));
  }
  const auto golden = ReadFile(GoldenPath(), 1 << 20);
  ASSERT_TRUE(golden.has_value()) << golden.error().message;
  const auto written = SerializeRecord(GoldenRecord());
  ASSERT_TRUE(written.has_value());
  EXPECT_EQ(*written, *golden);
  const auto read = ReadRecordFile(GoldenPath());
  ASSERT_TRUE(read.has_value()) << read.error().message;
  ExpectEqual(*read, GoldenRecord());
}

// The document's offsets, read without the code that wrote them.
TEST(KvRecordTest, FieldsLieWhereTheDocumentSays) {
  const std::string bytes = *SerializeRecord(GoldenRecord());
  const auto u32 = [&](size_t at) {
    return uint32_t{uint8_t(bytes[at])} | uint32_t{uint8_t(bytes[at + 1])} << 8 |
           uint32_t{uint8_t(bytes[at + 2])} << 16 | uint32_t{uint8_t(bytes[at + 3])} << 24;
  };
  EXPECT_EQ(bytes.substr(0, 8), "\x89ISKV\r\n\x1A");
  EXPECT_EQ(u32(8), 1u);
  EXPECT_EQ(u32(12), 192u);                // 128 + 9 + 7 names = 144, 12 of tokens, 8 of checksum = 164 -> 192
  EXPECT_EQ(u32(16), 2u * 2 * 6 * 3 * 2);  // heads * layers * (4 + 2) * tokens * 2 bytes
  EXPECT_EQ(bytes.size(), 192u + 144u);
  EXPECT_EQ(uint8_t(bytes[48]), 0x08);  // model key, high half first, little-endian
  EXPECT_EQ(u32(96), 3u);
  EXPECT_EQ(u32(100), 3u);
  EXPECT_EQ(u32(104), 2u);
  EXPECT_EQ(bytes.substr(120, 4), std::string("\1\1\1\0", 4));
  EXPECT_EQ(bytes.substr(128, 16), "user:norafact-α");
  EXPECT_EQ(u32(144), 7u);
  EXPECT_EQ(u32(152), 49151u);
  uint64_t stored;
  std::memcpy(&stored, bytes.data() + 24, 8);
  EXPECT_EQ(stored, Checksum64(bytes.data() + 192, 144));
  std::memcpy(&stored, bytes.data() + 184, 8);
  EXPECT_EQ(stored, Checksum64(bytes.data(), 184));
}

TEST(KvRecordTest, EveryBitFlipIsDetected) {
  const std::string golden = *SerializeRecord(GoldenRecord());
  for (size_t i = 0; i < golden.size(); ++i)
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = golden;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      EXPECT_FALSE(ParseRecord(bytes)) << "byte " << i << " bit " << bit;
    }
}

TEST(KvRecordTest, EveryTruncationAndTrailingByteIsDetected) {
  const TempFolder folder;
  const std::string golden = *SerializeRecord(GoldenRecord());
  for (size_t n = 0; n < golden.size(); ++n) {
    const auto parsed = ParseRecord(std::string_view(golden).substr(0, n));
    ASSERT_FALSE(parsed) << n;
    EXPECT_EQ(parsed.error().code, ErrorCode::kCorrupt) << n;
    EXPECT_EQ(ReadRecordFile(folder.Write(golden.substr(0, n))).error().code, ErrorCode::kCorrupt) << n;
  }
  EXPECT_FALSE(ParseRecord(golden + '\0'));
  EXPECT_FALSE(ReadRecordFile(folder.Write(golden + "x")));
}

// A file whose checksums are right may still lie about its sizes: nothing is allocated by its word.
TEST(KvRecordTest, SizesAreCheckedBeforeAllocation) {
  const std::string golden = *SerializeRecord(GoldenRecord());
  const auto patched = [&](size_t at, uint32_t value) {
    std::string bytes = golden;
    std::memcpy(bytes.data() + at, &value, 4);
    const uint64_t checksum = Checksum64(bytes.data(), 184);
    std::memcpy(bytes.data() + 184, &checksum, 8);
    return ParseRecord(bytes);
  };
  EXPECT_EQ(patched(8, 2).error().code, ErrorCode::kVersionUnsupported);
  EXPECT_EQ(patched(100, 0xFFFFFFFF).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(patched(104, 1'000'000).error().code, ErrorCode::kTooLarge);
  for (const size_t at : {12, 16, 20, 100, 104, 108, 112, 116, 120, 124})
    for (const uint32_t value : {0u, 1u, 5u, 1024u, 0x7FFFFFFFu, 0xFFFFFFFFu}) {
      uint32_t present;
      std::memcpy(&present, golden.data() + at, 4);
      EXPECT_EQ(patched(at, value).has_value(), value == present) << at << " " << value;
    }
}

TEST(KvRecordTest, FileRoundTripAndAlignment) {
  const TempFolder folder;
  Tokens many(limits::kRecordTokens);  // a header of more than one read
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<TokenId>(i * 7);
  for (const Tokens& tokens : {Tokens{5}, Tokens(1000, 3), many}) {
    const KvRecord record = MakeRecord({.layers = 3, .kv_heads = 1, .key_dim = 8, .value_dim = 8}, tokens);
    ASSERT_TRUE(WriteRecordFile(folder.path / "r.kv", record));
    const auto read = ReadRecordFile(folder.path / "r.kv");
    ASSERT_TRUE(read.has_value()) << read.error().message;
    ExpectEqual(*read, record);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(read->payload.data()) % 64, 0u);
    const auto info = ReadRecordInfo(folder.path / "r.kv");
    ASSERT_TRUE(info.has_value());
    EXPECT_EQ(info->key, record.key);
    EXPECT_EQ(info->shape, record.payload.shape());
    EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator{}), 1)
        << "a temporary file is left";
  }
}

// Buffers are used again: they must fit, and two that are alive at once must be two.
TEST(KvRecordTest, PayloadBuffersAreUsedAgain) {
  const KvShape shape = {.layers = 30, .kv_heads = 3, .key_dim = 64, .value_dim = 64};
  std::vector<KvPayload> alive;
  for (int round = 0; round < 200; ++round) {
    KvPayload payload(shape, 1 + static_cast<uint32_t>(round * 37 % 60));
    std::memset(payload.data(), round, payload.bytes());
    alive.push_back(std::move(payload));
    if (round % 3 != 0) alive.erase(alive.begin() + round % static_cast<int>(alive.size()));
    for (const KvPayload& each : alive) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(each.data()) % 64, 0u);
      EXPECT_EQ(each.data()[0], each.data()[each.elements() - 1]) << "two payloads share memory";
    }
  }
}

TEST(KvRecordTest, ViewReadsInPlaceAndHoldsItsOwner) {
  const std::string bytes = *SerializeRecord(GoldenRecord());
  EXPECT_EQ(bytes, *SerializeRecordHeader(GoldenRecord()) +
                       std::string(reinterpret_cast<const char*>(GoldenRecord().payload.data()),
                                   GoldenRecord().payload.bytes()));
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  auto place = std::make_shared<std::vector<Line>>(bytes.size() / sizeof(Line) + 1);
  std::memcpy(place->data(), bytes.data(), bytes.size());
  const std::span<const std::byte> span(place->data()->bytes, bytes.size());
  {
    const auto view = ViewRecord(span, place);
    ASSERT_TRUE(view.has_value()) << view.error().message;
    ExpectEqual(*view, GoldenRecord());
    const auto* payload = reinterpret_cast<const std::byte*>(view->payload.data());
    EXPECT_TRUE(payload > span.data() && payload < span.data() + span.size()) << "copied";
    EXPECT_EQ(place.use_count(), 2);
  }
  EXPECT_EQ(place.use_count(), 1);
  place->data()->bytes[20] ^= std::byte{1};
  EXPECT_FALSE(ViewRecord(span, place));
}

// A quantised record's bytes: the fields are the golden record's, the payload is of any content.
std::string QuantisedBytes(KvEncoding encoding) {
  RecordKey key = GoldenRecord().key;
  key.encoding = encoding;
  key.calibration_id = {0x2122232425262728, 0x292A2B2C2D2E2F30};
  std::vector<std::byte> payload(GoldenRecord().payload.shape().PayloadBytes(3, encoding));
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = static_cast<std::byte>(i * 7);
  auto header = SerializeRecordHeader(key, GoldenRecord().payload.shape(), payload);
  EXPECT_TRUE(header.has_value()) << header.error().message;
  return *header + std::string(reinterpret_cast<const char*>(payload.data()), payload.size());
}

// tests/data/kv_record_v1_int8.kv and …_int4.kv, as the golden file above.
TEST(KvRecordTest, QuantisedGoldenFilesAreByteExact) {
  for (const auto& [encoding, name] : {std::pair{KvEncoding::kInt8, "int8"}, std::pair{KvEncoding::kInt4, "int4"}}) {
    const std::string path = std::string(INFERSCALE_TEST_DATA) + "/kv_record_v1_" + name + ".kv";
    const std::string bytes = QuantisedBytes(encoding);
    if (std::getenv("INFERSCALE_WRITE_GOLDEN") != nullptr) {
      ASSERT_TRUE(WriteFileAtomic(path, bytes));
    }
    const auto golden = ReadFile(path, 1 << 20);
    ASSERT_TRUE(golden.has_value()) << golden.error().message;
    EXPECT_EQ(bytes, *golden);
    // A head: 2 layers of 3 tokens of 6 elements, 36 bytes (18) padded to 48 (32), and 6 scales, 12 bytes padded to 16.
    EXPECT_EQ(bytes.size(), 192u + 2 * (encoding == KvEncoding::kInt8 ? 48 + 16 : 32 + 16));
    EXPECT_EQ(bytes[121], static_cast<char>(encoding));
    EXPECT_EQ(bytes[122], static_cast<char>(encoding));
    const auto view = ViewRecordBytes(std::as_bytes(std::span(*golden)));
    ASSERT_TRUE(view.has_value()) << view.error().message;
    EXPECT_EQ(view->key.encoding, encoding);
    EXPECT_EQ(view->key.calibration_id, (Hash128{0x2122232425262728, 0x292A2B2C2D2E2F30}));
    EXPECT_EQ(view->shape, GoldenRecord().payload.shape());
    EXPECT_EQ(view->payload.size(), bytes.size() - 192);
    EXPECT_EQ(view->payload_checksum, Checksum64(view->payload.data(), view->payload.size()));
    EXPECT_EQ(ParseRecord(bytes).error().code, ErrorCode::kMismatch) << "taken for f16";
    EXPECT_EQ(ReadRecordFile(path).error().code, ErrorCode::kMismatch);
    EXPECT_EQ(ReadRecordInfo(path)->key.encoding, encoding);
    std::string other = bytes;  // keys and values of different encodings
    other[122] = 1;
    const uint64_t checksum = Checksum64(other.data(), 184);
    std::memcpy(other.data() + 184, &checksum, 8);
    EXPECT_FALSE(ViewRecordBytes(std::as_bytes(std::span(other))));
  }
}

TEST(KvRecordTest, HeadersOfQuantisedRecordsAreChecked) {
  const KvShape shape = GoldenRecord().payload.shape();
  const auto code = [](const RecordKey& key, const KvShape& of, size_t bytes) {
    const std::vector<std::byte> payload(bytes);
    const auto header = SerializeRecordHeader(key, of, payload);
    return header ? ErrorCode::kInternal : header.error().code;
  };
  RecordKey key = GoldenRecord().key;
  EXPECT_EQ(code(key, shape, 144), ErrorCode::kInternal) << "f16: accepted";
  key.encoding = KvEncoding::kInt8;
  EXPECT_EQ(code(key, shape, 128), ErrorCode::kInvalidArgument) << "no calibration";
  key.calibration_id = {1, 2};
  EXPECT_EQ(code(key, shape, 128), ErrorCode::kInternal) << "accepted";
  EXPECT_EQ(code(key, shape, 127), ErrorCode::kInvalidArgument);
  EXPECT_EQ(code(key, shape, 144), ErrorCode::kInvalidArgument) << "the length of f16";
  key.encoding = KvEncoding::kF16;
  EXPECT_EQ(code(key, shape, 144), ErrorCode::kInvalidArgument) << "f16 with a calibration";
  key.encoding = KvEncoding::kBf16;
  EXPECT_EQ(code(key, shape, 144), ErrorCode::kInvalidArgument);
  key.encoding = KvEncoding::kInt4;
  const KvShape odd = {.layers = 2, .kv_heads = 2, .key_dim = 3, .value_dim = 2};
  EXPECT_EQ(code(key, odd, odd.PayloadBytes(3, KvEncoding::kInt4)), ErrorCode::kInvalidArgument);
}

TEST(KvRecordTest, ErrorsOfPaths) {
  const TempFolder folder;
  EXPECT_EQ(ReadRecordFile(folder.path / "none.kv").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(ReadRecordFile(folder.path).error().code, ErrorCode::kCorrupt);
  EXPECT_FALSE(WriteRecordFile(folder.path / "no" / "such" / "r.kv", GoldenRecord()));
}

TEST(KvRecordTest, RefusesWhatCannotBeStored) {
  const std::vector<std::function<void(KvRecord&)>> breaks = {
      [](KvRecord& r) { r.key.token_ids.push_back(1); },
      [](KvRecord& r) { r.key.fact_id.clear(); },
      [](KvRecord& r) { r.key.fact_id.assign(limits::kIdBytes + 1, 'x'); },
      [](KvRecord& r) { r.key.name_space.assign(limits::kNamespaceBytes + 1, 'x'); },
      [](KvRecord& r) {
        r.key.token_ids.clear();
        r.payload = KvPayload(r.payload.shape(), 0);
      },
      [](KvRecord& r) { r.key.encoding = static_cast<KvEncoding>(3); }};
  for (size_t i = 0; i < breaks.size(); ++i) {
    KvRecord record = GoldenRecord();
    breaks[i](record);
    EXPECT_EQ(SerializeRecord(record).error().code, ErrorCode::kInvalidArgument) << i;
  }
}

TEST(KvRecordTest, IdDependsOnEveryField) {
  const RecordKey key = GoldenRecord().key;
  const std::vector<std::function<void(RecordKey&)>> changes = {
      [](RecordKey& k) { k.name_space += "x"; },
      [](RecordKey& k) { k.fact_id += "x"; },
      [](RecordKey& k) {
        k.name_space = "user:noraf";
        k.fact_id = "act-α";
      },
      [](RecordKey& k) { ++k.content_version; },
      [](RecordKey& k) { k.token_ids.push_back(0); },
      [](RecordKey& k) { ++k.model_key.low; },
      [](RecordKey& k) { ++k.calibration_id.high; },
      [](RecordKey& k) { ++k.window_digest.low; },
      [](RecordKey& k) { k.encoding = static_cast<KvEncoding>(2); }};
  std::vector<RecordId> ids = {key.Id()};
  for (const auto& change : changes) {
    RecordKey other = key;
    change(other);
    for (const RecordId& id : ids) EXPECT_NE(other.Id(), id);
    ids.push_back(other.Id());
  }
  EXPECT_EQ(key.Id(), GoldenRecord().key.Id());
}

}  // namespace
}  // namespace inferscale
