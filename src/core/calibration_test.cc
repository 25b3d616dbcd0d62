#include "core/calibration.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>

#include "base/file.h"
#include "base/limits.h"

namespace inferscale {
namespace {

constexpr KvShape kShape = {.layers = 2, .kv_heads = 3, .key_dim = 4, .value_dim = 6};
constexpr ModelKey kModel = {0x0102030405060708, 0x090A0B0C0D0E0F10};

std::vector<KeyChannel> Channels() {
  std::vector<KeyChannel> channels;
  for (uint16_t i = 0; i < 24; ++i)
    channels.push_back(
        {static_cast<uint16_t>(0x2000 + 37 * i), static_cast<uint16_t>(i % 2 ? 0xC000 + i : 0x4100 - i)});
  return channels;
}
Calibration Golden() { return *Calibration::Make(kModel, KvEncoding::kInt8, kShape, 2048, Channels()); }

// tests/data/calibration_v1.cal is Golden().Serialize(), byte for byte, for ever: files of version 1 stay readable. It
// was written by this test, run once with INFERSCALE_WRITE_GOLDEN=1.
TEST(CalibrationTest, GoldenFileIsByteExact) {
  const std::string path = std::string(INFERSCALE_TEST_DATA) + "/calibration_v1.cal";
  if (std::getenv("INFERSCALE_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomic(path, Golden().Serialize()));
  }
  const auto golden = ReadFile(path, 1 << 20);
  ASSERT_TRUE(golden.has_value()) << golden.error().message;
  EXPECT_EQ(Golden().Serialize(), *golden);
  const auto read = Calibration::Parse(*golden);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->id(), Golden().id());
  EXPECT_EQ(read->model_key(), kModel);
  EXPECT_EQ(read->encoding(), KvEncoding::kInt8);
  EXPECT_EQ(read->shape(), kShape);
  EXPECT_EQ(read->tokens(), 2048u);
  EXPECT_EQ(read->channels(), Channels());
  EXPECT_EQ(*read->Row(1, 2), Channels()[(1 * 3 + 2) * 4]);
}

// The document's offsets, read without the code that wrote them.
TEST(CalibrationTest, FieldsLieWhereTheDocumentSays) {
  const std::string bytes = Golden().Serialize();
  const auto u32 = [&](size_t at) {
    return uint32_t{uint8_t(bytes[at])} | uint32_t{uint8_t(bytes[at + 1])} << 8 |
           uint32_t{uint8_t(bytes[at + 2])} << 16 | uint32_t{uint8_t(bytes[at + 3])} << 24;
  };
  EXPECT_EQ(bytes.size(), 64u + 24 * 4 + 16);
  EXPECT_EQ(bytes.substr(0, 8), "\x89ISCA\r\n\x1A");
  EXPECT_EQ(u32(8), 1u);
  EXPECT_EQ(u32(12), 3u);
  EXPECT_EQ(u32(16), 0x05060708u);
  EXPECT_EQ(u32(28), 0x090A0B0Cu);
  EXPECT_EQ(u32(32), 2048u);
  EXPECT_EQ(u32(36), 2u);
  EXPECT_EQ(u32(40), 3u);
  EXPECT_EQ(u32(44), 4u);
  EXPECT_EQ(u32(48), 6u);
  EXPECT_EQ(bytes.substr(52, 12), std::string(12, '\0'));
  EXPECT_EQ(u32(64), 0x2000u | 0x4100u << 16);  // layer 0, head 0, channel 0: scale, zero
  EXPECT_EQ(u32(64 + 4 * 13), (0x2000u + 37 * 13) | (0xC000u + 13) << 16);
  const Hash128 id = HashBytes(bytes.data(), bytes.size() - 16);
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - 16, &id.high, 8), 0);
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() - 8, &id.low, 8), 0);
  EXPECT_EQ(id, Golden().id());
}

TEST(CalibrationTest, AnyOtherByteIsRefused) {
  const std::string golden = Golden().Serialize();
  for (size_t i = 0; i < golden.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string bytes = golden;
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      EXPECT_FALSE(Calibration::Parse(bytes)) << "byte " << i << " bit " << bit;
    }
    EXPECT_EQ(Calibration::Parse(std::string_view(golden).substr(0, i)).error().code, ErrorCode::kCorrupt);
  }
  EXPECT_FALSE(Calibration::Parse(golden + '\0'));
}

// A file whose digest is right may still lie.
TEST(CalibrationTest, ContentIsChecked) {
  const auto patched = [](size_t at, uint32_t value) {
    std::string bytes = Golden().Serialize();
    std::memcpy(bytes.data() + at, &value, 4);
    const Hash128 id = HashBytes(bytes.data(), bytes.size() - 16);
    std::memcpy(bytes.data() + bytes.size() - 16, &id.high, 8);
    std::memcpy(bytes.data() + bytes.size() - 8, &id.low, 8);
    return Calibration::Parse(bytes);
  };
  EXPECT_TRUE(patched(32, 4096));
  EXPECT_TRUE(patched(12, 4)) << "int4 has the same fields";
  EXPECT_EQ(patched(8, 2).error().code, ErrorCode::kVersionUnsupported);
  for (const uint32_t encoding : {0u, 1u, 2u, 5u, 259u, 0xFFFFFFFFu}) EXPECT_FALSE(patched(12, encoding)) << encoding;
  for (const size_t at : {36, 40, 44, 48})
    for (const uint32_t size : {0u, 1025u, 0x40000000u, 0xFFFFFFFFu}) EXPECT_FALSE(patched(at, size)) << at;
  EXPECT_FALSE(patched(36, 3)) << "more layers than there are channels";
  EXPECT_FALSE(patched(60, 1)) << "padding";
  EXPECT_FALSE(patched(64, 0x00000000)) << "a scale of zero";
  EXPECT_FALSE(patched(64, 0x0000A000)) << "a negative scale";
  EXPECT_FALSE(patched(64, 0x00007C00)) << "an infinite scale";
  EXPECT_FALSE(patched(64, 0xFE002000)) << "a zero that is NaN";
}

TEST(CalibrationTest, MakeRefusesWhatCannotBe) {
  const auto make = [](KvEncoding encoding, KvShape shape, std::vector<KeyChannel> channels) {
    return Calibration::Make(kModel, encoding, shape, 2048, std::move(channels)).error().code;
  };
  EXPECT_EQ(make(KvEncoding::kF16, kShape, Channels()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make(KvEncoding::kBf16, kShape, Channels()), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make(KvEncoding::kInt8, kShape, std::vector<KeyChannel>(23, {1, 1})), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make(KvEncoding::kInt8, {}, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(make(KvEncoding::kInt4, {2, 3, 4, 5}, Channels()), ErrorCode::kInvalidArgument) << "odd";
  EXPECT_TRUE(Calibration::Make(kModel, KvEncoding::kInt8, {2, 3, 4, 5}, 1, Channels()));
}

TEST(CalibrationTest, IdDependsOnEverything) {
  const Hash128 id = Golden().id();
  EXPECT_NE(id, Hash128());
  std::vector<KeyChannel> other = Channels();
  ++other[23].zero;
  EXPECT_NE(id, Calibration::Make(kModel, KvEncoding::kInt8, kShape, 2048, other)->id());
  EXPECT_NE(id, Calibration::Make({1, 2}, KvEncoding::kInt8, kShape, 2048, Channels())->id());
  EXPECT_NE(id, Calibration::Make(kModel, KvEncoding::kInt4, kShape, 2048, Channels())->id());
  EXPECT_NE(id, Calibration::Make(kModel, KvEncoding::kInt8, {3, 2, 4, 6}, 2048, Channels())->id());
}

}  // namespace
}  // namespace inferscale
