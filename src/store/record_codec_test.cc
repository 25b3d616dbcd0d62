#include "store/record_codec.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "kernels/cpu/convert.h"
#include "store/calibrator.h"

namespace inferscale {
namespace {

constexpr ModelKey kModel = {3, 4};
const KvShape kShape = {.layers = 3, .kv_heads = 2, .key_dim = 18, .value_dim = 22};

KvRecord MakeRecord(uint32_t tokens, uint32_t seed, double spread = 1.0, const KvShape& shape = kShape) {
  KvPayload payload(shape, tokens);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (size_t i = 0; i < payload.elements(); ++i)
    payload.data()[i] = kernels::F32ToF16Scalar(static_cast<float>(spread) * normal(random));
  RecordKey key{.name_space = "user:nora",
                .fact_id = "f1",
                .content_version = 1,
                .token_ids = Tokens(tokens, 7),
                .model_key = kModel,
                .encoding = KvEncoding::kF16,
                .calibration_id = {},
                .window_digest = {5, 6}};
  return {std::move(key), std::move(payload)};
}

Calibration MakeCalibration(KvEncoding encoding, uint32_t seed = 100, const KvShape& shape = kShape) {
  Calibrator calibrator(kModel, shape);
  EXPECT_TRUE(calibrator.Add(MakeRecord(limits::kCalibrationTokensMin, seed, 1.0, shape).payload));
  auto made = calibrator.Finish(encoding);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  return std::move(*made);
}

// What the store gives back: bytes in aligned memory, and who keeps it.
struct Stored {
  std::shared_ptr<RecordBytes> owner;
  std::span<const std::byte> bytes() const { return std::as_const(*owner).bytes(); }
};
Stored Store(const EncodedRecord& encoded) {
  Stored stored{std::make_shared<RecordBytes>(encoded.bytes())};
  std::byte* to = stored.owner->bytes().data();
  for (const std::string_view piece : encoded.pieces()) {
    std::memcpy(to, piece.data(), piece.size());
    to += piece.size();
  }
  return stored;
}

double RelativeError(const KvRecord& a, const KvRecord& b) {
  double error = 0, size = 0;
  for (size_t i = 0; i < a.payload.elements(); ++i) {
    const double x = kernels::F16ToF32Scalar(a.payload.data()[i]), y = kernels::F16ToF32Scalar(b.payload.data()[i]);
    error += (x - y) * (x - y);
    size += x * x;
  }
  return std::sqrt(error / size);
}

TEST(RecordCodecTest, QuantisedRecordsComeBackClose) {
  const KvRecord record = MakeRecord(27, 1);
  for (const KvEncoding encoding : {KvEncoding::kInt8, KvEncoding::kInt4}) {
    const Calibration calibration = MakeCalibration(encoding);
    const auto encoded = EncodeRecord(record, encoding, &calibration);
    ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
    EXPECT_EQ(encoded->key.encoding, encoding);
    EXPECT_EQ(encoded->key.calibration_id, calibration.id());
    EXPECT_NE(encoded->key.Id(), record.key.Id());
    EXPECT_EQ(encoded->payload.size(), kShape.PayloadBytes(27, encoding));
    EXPECT_EQ(encoded->key_values, 3u * 2 * 18 * 27);
    // 0.2 % lies beyond the percentiles, and beyond the rounding half a step more may.
    EXPECT_GT(encoded->clipped, 0u);
    EXPECT_LT(encoded->clipped_share(), 0.01);
    const Stored stored = Store(*encoded);
    const auto decoded = DecodeRecord(stored.bytes(), stored.owner, &calibration);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(decoded->key, encoded->key);
    EXPECT_EQ(stored.owner.use_count(), 1) << "the bytes are not needed any more";
    // Steps of 6.2 / 255 and 6.2 / 15 standard deviations, over the square root of 12: 0.7 % and 12 %. What is clipped,
    // by a third of a standard deviation on average, adds 1.4 %.
    EXPECT_LT(RelativeError(record, *decoded), encoding == KvEncoding::kInt8 ? 0.02 : 0.16);
    EXPECT_GT(RelativeError(record, *decoded), encoding == KvEncoding::kInt8 ? 0.003 : 0.05);
    // A second time would round again.
    EXPECT_EQ(EncodeRecord(*decoded, encoding, &calibration).error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(EncodeRecord(*decoded, KvEncoding::kF16, nullptr).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(RecordCodecTest, ExactWithoutACalibrationAndViewedInPlace) {
  const KvRecord record = MakeRecord(9, 2);
  for (const KvEncoding wanted : {KvEncoding::kF16, KvEncoding::kInt8, KvEncoding::kInt4}) {
    const auto encoded = EncodeRecord(record, wanted, nullptr);
    ASSERT_TRUE(encoded.has_value()) << encoded.error().message;
    EXPECT_EQ(encoded->key, record.key);
    EXPECT_EQ(encoded->clipped_share(), 0);
    EXPECT_EQ(static_cast<const void*>(encoded->payload.data()), record.payload.data()) << "copied";
    const Stored stored = Store(*encoded);
    EXPECT_EQ(std::string(stored.owner->view()), *SerializeRecord(record));
    const Calibration other = MakeCalibration(KvEncoding::kInt8);  // exact records need none, and no other harms
    const auto decoded = DecodeRecord(stored.bytes(), stored.owner, &other);
    ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
    EXPECT_EQ(decoded->key, record.key);
    EXPECT_EQ(std::memcmp(decoded->payload.data(), record.payload.data(), record.payload.bytes()), 0);
    EXPECT_EQ(stored.owner.use_count(), 2) << "the view holds its owner";
  }
}

TEST(RecordCodecTest, AnotherCalibrationIsRefused) {
  const KvRecord record = MakeRecord(5, 3);
  const Calibration used = MakeCalibration(KvEncoding::kInt8), later = MakeCalibration(KvEncoding::kInt8, 101);
  ASSERT_NE(used.id(), later.id());
  const Stored stored = Store(*EncodeRecord(record, KvEncoding::kInt8, &used));
  const auto refused = DecodeRecord(stored.bytes(), stored.owner, &later);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kMismatch);
  EXPECT_NE(refused.error().message.find(used.id().Hex()), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find(later.id().Hex()), std::string::npos) << refused.error().message;
  EXPECT_EQ(DecodeRecord(stored.bytes(), stored.owner, nullptr).error().code, ErrorCode::kMismatch);
  EXPECT_TRUE(DecodeRecord(stored.bytes(), stored.owner, &used));
}

TEST(RecordCodecTest, CalibrationsOfOtherModelsShapesAndEncodingsDoNotFit) {
  const KvRecord record = MakeRecord(5, 4);
  const Calibration int4 = MakeCalibration(KvEncoding::kInt4);
  EXPECT_EQ(EncodeRecord(record, KvEncoding::kInt8, &int4).error().code, ErrorCode::kMismatch);
  const Calibration shape = MakeCalibration(KvEncoding::kInt8, 100, {2, 3, 18, 22});
  EXPECT_EQ(EncodeRecord(record, KvEncoding::kInt8, &shape).error().code, ErrorCode::kMismatch);
  const Calibration int8 = MakeCalibration(KvEncoding::kInt8);
  KvRecord foreign = MakeRecord(5, 4);
  foreign.key.model_key = {9, 9};
  EXPECT_EQ(EncodeRecord(foreign, KvEncoding::kInt8, &int8).error().code, ErrorCode::kMismatch);
  EXPECT_EQ(EncodeRecord(record, KvEncoding::kBf16, &int8).error().code, ErrorCode::kInvalidArgument);
  // A record that names a calibration which is not its model's.
  RecordKey key = foreign.key;
  key.encoding = KvEncoding::kInt8;
  key.calibration_id = int8.id();
  const auto quantised = EncodeRecord(record, KvEncoding::kInt8, &int8);
  EncodedRecord lying;
  lying.header = *SerializeRecordHeader(key, kShape, quantised->payload);
  lying.payload = quantised->payload;
  const Stored stored = Store(lying);
  EXPECT_EQ(DecodeRecord(stored.bytes(), stored.owner, &int8).error().code, ErrorCode::kCorrupt);
}

TEST(RecordCodecTest, TextThatTheCalibrationDoesNotFitStaysExact) {
  const Calibration calibration = MakeCalibration(KvEncoding::kInt8);
  const KvRecord wide = MakeRecord(27, 5, 2.0);  // 12 % of its keys are beyond 3.09 / 2 standard deviations
  const auto encoded = EncodeRecord(wide, KvEncoding::kInt8, &calibration);
  ASSERT_TRUE(encoded.has_value());
  EXPECT_NEAR(encoded->clipped_share(), 0.12, 0.02);
  EXPECT_EQ(encoded->key, wide.key);
  const Stored stored = Store(*encoded);
  EXPECT_EQ(std::string(stored.owner->view()), *SerializeRecord(wide));
}

TEST(RecordCodecTest, InfinityAndNanAreRefused) {
  const Calibration calibration = MakeCalibration(KvEncoding::kInt8);
  for (const uint16_t bad : {0x7C00, 0xFC00, 0x7E00}) {
    KvRecord record = MakeRecord(4, 6);
    record.payload.data()[record.payload.elements() - 1] = bad;
    EXPECT_EQ(EncodeRecord(record, KvEncoding::kInt8, &calibration).error().code, ErrorCode::kInvalidArgument);
  }
}

TEST(RecordCodecTest, DamagedHeadersAreRefused) {
  const Calibration calibration = MakeCalibration(KvEncoding::kInt8);
  const auto encoded = EncodeRecord(MakeRecord(4, 7), KvEncoding::kInt8, &calibration);
  for (size_t i = 0; i < encoded->header.size(); ++i) {
    const Stored stored = Store(*encoded);
    stored.owner->bytes()[i] ^= std::byte{1};
    EXPECT_FALSE(DecodeRecord(stored.bytes(), stored.owner, &calibration)) << i;
  }
  const Stored stored = Store(*encoded);
  EXPECT_FALSE(DecodeRecord(stored.bytes().first(stored.bytes().size() - 1), stored.owner, &calibration));
}

}  // namespace
}  // namespace inferscale
