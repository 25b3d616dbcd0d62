#include "store/calibrator.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <vector>

#include "base/file.h"
#include "kernels/cpu/convert.h"
#include "store/calibration_file.h"

namespace inferscale {
namespace {

constexpr ModelKey kModel = {3, 4};
const KvShape kShape = {.layers = 2, .kv_heads = 3, .key_dim = 6, .value_dim = 2};

// All values of one channel, as doubles.
using Samples = std::vector<double>;

struct Fed {
  Calibrator calibrator{kModel, kShape};
  std::vector<Samples> samples{2 * 3 * 6};  // [layers][heads][key_dim]

  // value: of (layer, head, channel) and the token's number.
  template <class Value>
  void Feed(uint32_t tokens, uint32_t piece, Value value) {
    for (uint32_t done = 0; done < tokens; done += piece) {
      const uint32_t count = std::min(piece, tokens - done);
      KvPayload payload(kShape, count);
      std::fill(payload.data(), payload.data() + payload.elements(), 0x7BFF);  // values must not count
      for (uint32_t layer = 0; layer < 2; ++layer)
        for (uint32_t head = 0; head < 3; ++head)
          for (uint32_t t = 0; t < count; ++t)
            for (uint32_t d = 0; d < 6; ++d) {
              const uint32_t channel = (layer * 3 + head) * 6 + d;
              const uint16_t half = kernels::F32ToF16Scalar(static_cast<float>(value(channel, done + t)));
              payload.Key(head, layer)[t * 6 + d] = half;
              samples[channel].push_back(kernels::F16ToF32Scalar(half));
            }
      ASSERT_TRUE(calibrator.Add(payload));
    }
  }
};

double Quantile(const Samples& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const double next = sorted[std::min(below + 1, sorted.size() - 1)];
  return sorted[below] + (next - sorted[below]) * (place - static_cast<double>(below));
}

double Half(uint16_t bits) { return kernels::F16ToF32Scalar(bits); }

// Against sorting everything: the range is the percentiles', within the rounding of two halves.
TEST(CalibratorTest, RangesAreThePercentiles) {
  for (const uint32_t tokens : {limits::kCalibrationTokensMin, 5000u, limits::kCalibrationTokensMax}) {
    Fed fed;
    std::mt19937 random(tokens);
    std::normal_distribution<double> normal;
    fed.Feed(tokens, 173, [&](uint32_t channel, uint32_t) {
      const double outlier = random() % 3000 == 0 ? 100 : 1;
      return (channel % 4 - 1.5) * 9 + normal(random) * (1 + channel % 3) * outlier;
    });
    EXPECT_EQ(fed.calibrator.tokens(), tokens);
    for (Samples& channel : fed.samples) std::sort(channel.begin(), channel.end());
    for (const KvEncoding encoding : {KvEncoding::kInt8, KvEncoding::kInt4}) {
      const auto made = fed.calibrator.Finish(encoding);
      ASSERT_TRUE(made.has_value()) << made.error().message;
      EXPECT_EQ(made->tokens(), tokens);
      const double top = encoding == KvEncoding::kInt8 ? 255 : 15;
      for (size_t i = 0; i < made->channels().size(); ++i) {
        const double low = Quantile(fed.samples[i], 0.001), high = Quantile(fed.samples[i], 0.999);
        const double scale = Half(made->channels()[i].scale), zero = Half(made->channels()[i].zero);
        const double rounding = (high - low) * 0x1p-10 + std::max(std::fabs(low), std::fabs(high)) * 0x1p-10;
        EXPECT_GE(scale * top, high - low);
        EXPECT_NEAR(zero, low, rounding);
        EXPECT_NEAR(zero + top * scale, high, rounding);
      }
    }
  }
}

// Channels that do not vary come back as they are.
TEST(CalibratorTest, ConstantChannels) {
  const double constants[] = {0, 1, -3.25, 150, -150.125, 1e-6, 0x1p-24, 65504, -65504, 0.1, 2047, -1024};
  Fed fed;
  fed.Feed(limits::kCalibrationTokensMin, 512,
           [&](uint32_t channel, uint32_t) { return constants[channel % std::size(constants)]; });
  for (const KvEncoding encoding : {KvEncoding::kInt8, KvEncoding::kInt4}) {
    const float top = encoding == KvEncoding::kInt8 ? 255 : 15;
    const auto made = fed.calibrator.Finish(encoding);
    ASSERT_TRUE(made.has_value()) << made.error().message;
    for (size_t i = 0; i < made->channels().size(); ++i) {
      const double want = fed.samples[i][0];
      const float scale = kernels::F16ToF32Scalar(made->channels()[i].scale);
      const float zero = kernels::F16ToF32Scalar(made->channels()[i].zero);
      const float q = std::nearbyint((static_cast<float>(want) - zero) / scale);
      EXPECT_GE(q, 0) << want;
      EXPECT_LE(q, top) << want;
      EXPECT_EQ(Half(kernels::F32ToF16Scalar(zero + q * scale)), want);
    }
  }
}

TEST(CalibratorTest, RefusesWhatProvesNothing) {
  Calibrator calibrator(kModel, kShape);
  KvPayload payload(kShape, 1024);
  std::fill(payload.data(), payload.data() + payload.elements(), 0x3C00);
  ASSERT_TRUE(calibrator.Add(payload));
  EXPECT_EQ(calibrator.Finish(KvEncoding::kInt8).error().code, ErrorCode::kInvalidArgument) << "1,024 tokens";
  EXPECT_EQ(calibrator.Add(KvPayload({1, 1, 6, 2}, 1)).error().code, ErrorCode::kInvalidArgument);
  for (const uint16_t bad : {0x7C00, 0xFC00, 0xFFFF}) {
    payload.data()[payload.elements() / 2] = bad;
    EXPECT_EQ(calibrator.Add(payload).error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(calibrator.tokens(), 1024u) << "counted what it refused";
  payload.data()[payload.elements() / 2] = 0x3C00;
  while (calibrator.tokens() < limits::kCalibrationTokensMax) ASSERT_TRUE(calibrator.Add(payload));
  EXPECT_EQ(calibrator.Add(payload).error().code, ErrorCode::kTooLarge);
  EXPECT_EQ(calibrator.Finish(KvEncoding::kF16).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(calibrator.Finish(KvEncoding::kInt8));
  const KvShape odd = {1, 1, 5, 2};
  Calibrator of_odd(kModel, odd);
  KvPayload many(odd, limits::kCalibrationTokensMin);
  std::fill(many.data(), many.data() + many.elements(), 0x3C00);
  ASSERT_TRUE(of_odd.Add(many));
  EXPECT_TRUE(of_odd.Finish(KvEncoding::kInt8));
  EXPECT_EQ(of_odd.Finish(KvEncoding::kInt4).error().code, ErrorCode::kInvalidArgument) << "odd head sizes";
}

TEST(CalibrationFileTest, ReadsWhatWasWritten) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / ("calibration_test." + std::to_string(::getpid())) / "new";
  const auto none = ReadCalibrationFile(folder, kModel, KvEncoding::kInt8);
  ASSERT_TRUE(none.has_value()) << none.error().message;
  EXPECT_FALSE(none->has_value());
  Fed fed;
  fed.Feed(limits::kCalibrationTokensMin, 512, [](uint32_t channel, uint32_t t) { return channel + t % 7; });
  const Calibration made = *fed.calibrator.Finish(KvEncoding::kInt8);
  ASSERT_TRUE(WriteCalibrationFile(folder, made));
  const auto read = ReadCalibrationFile(folder, kModel, KvEncoding::kInt8);
  ASSERT_TRUE(read.has_value() && read->has_value());
  EXPECT_EQ((*read)->id(), made.id());
  EXPECT_EQ((*read)->channels(), made.channels());
  EXPECT_FALSE(ReadCalibrationFile(folder, kModel, KvEncoding::kInt4)->has_value());
  // Another model's under this one's name, and a damaged one.
  fs::copy_file(CalibrationPath(folder, kModel, KvEncoding::kInt8), CalibrationPath(folder, {1, 1}, KvEncoding::kInt8));
  EXPECT_EQ(ReadCalibrationFile(folder, {1, 1}, KvEncoding::kInt8).error().code, ErrorCode::kCorrupt);
  std::string bytes = made.Serialize();
  bytes[70] = static_cast<char>(bytes[70] ^ 1);
  ASSERT_TRUE(WriteFileAtomic(CalibrationPath(folder, kModel, KvEncoding::kInt8), bytes));
  const auto damaged = ReadCalibrationFile(folder, kModel, KvEncoding::kInt8);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, ErrorCode::kCorrupt);
  EXPECT_NE(damaged.error().message.find(kModel.Hex()), std::string::npos) << "which file?";
  fs::remove_all(folder.parent_path());
}

}  // namespace
}  // namespace inferscale
