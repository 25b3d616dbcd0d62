#include "kernels/cpu/convert.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cpu/cpu_targets_test_util.h"

namespace inferscale::kernels {
namespace {

// The value of a half by its definition.
double ValueOfHalf(uint16_t bits) {
  const double sign = bits & 0x8000 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31, mantissa = bits & 0x3FF;
  if (exponent == 31) {
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(mantissa + 1024, exponent - 25));
}

bool IsNanHalf(uint16_t bits) { return (bits & 0x7FFF) > 0x7C00; }

// Nearest even by search among the halves: positive finite ones are in order of their bits.
uint16_t NearestHalf(float value) {
  const uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value)) return sign | 0x7E00;
  const double magnitude = std::fabs(double{value});
  if (magnitude >= 65520.0) return sign | 0x7C00;  // half way from the largest half to the step behind it
  uint16_t low = 0, high = 0x7C00;
  while (high - low > 1) {
    const auto middle = static_cast<uint16_t>((low + high) / 2);
    (ValueOfHalf(middle) <= magnitude ? low : high) = middle;
  }
  if (high == 0x7C00) return sign | low;
  const double below = magnitude - ValueOfHalf(low), above = ValueOfHalf(high) - magnitude;
  if (below == above) return sign | (low % 2 == 0 ? low : high);
  return sign | (below < above ? low : high);
}

void ExpectHalf(uint16_t got, float from) {
  if (std::isnan(from)) {
    EXPECT_TRUE(IsNanHalf(got)) << std::hex << got;
    return;
  }
  EXPECT_EQ(got, NearestHalf(from)) << "from " << from << " = 0x" << std::hex << std::bit_cast<uint32_t>(from);
}

std::vector<float> InterestingFloats() {
  std::vector<float> out;
  std::mt19937 random(1);
  for (int i = 0; i < 100'000; ++i) out.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  // Every half, the middle to the next one, and the floats beside both: all ties and their neighbours.
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const auto here = static_cast<float>(ValueOfHalf(static_cast<uint16_t>(bits)));
    const float next = bits == 0x7BFF ? 65536.0f : static_cast<float>(ValueOfHalf(static_cast<uint16_t>(bits + 1)));
    for (const float value : {here, (here + next) / 2}) {
      for (const float v : {std::nextafter(value, -1.0f), value, std::nextafter(value, 1e30f)}) {
        out.push_back(v);
        out.push_back(-v);
      }
    }
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (const float v : {inf, -inf, std::nanf(""), -std::nanf(""), std::numeric_limits<float>::denorm_min(),
                        std::numeric_limits<float>::max(), std::bit_cast<float>(0x7F800001u)}) {
    out.push_back(v);
  }
  return out;
}

TEST(ConvertTest, EveryHalfBecomesItsValue) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float value = F16ToF32Scalar(bits);
    if (IsNanHalf(bits)) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(double{value}, ValueOfHalf(bits)) << std::hex << bits;
    }
    EXPECT_EQ(std::signbit(value), (bits & 0x8000) != 0);
  }
}

TEST(ConvertTest, ScalarRoundsToNearestEven) {
  for (const float value : InterestingFloats()) ExpectHalf(F32ToF16Scalar(value), value);
}

TEST(ConvertTest, VectorsEqualScalarAndRoundTrip) {
  std::vector<uint16_t> halves(65536);
  for (size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<uint16_t>(i);
  const std::vector<float> floats = InterestingFloats();
  ForEachCpuTarget([&] {
    std::vector<float> wide(halves.size());
    F16ToF32(halves.data(), wide.data(), halves.size());
    std::vector<uint16_t> back(halves.size());
    F32ToF16(wide.data(), back.data(), wide.size());
    for (size_t i = 0; i < halves.size(); ++i) {
      ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(F16ToF32Scalar(halves[i]))) << i;
      ASSERT_EQ(back[i], IsNanHalf(halves[i]) ? halves[i] | 0x0200 : halves[i]);  // a signalling NaN becomes quiet
    }
    std::vector<uint16_t> narrow(floats.size());
    F32ToF16(floats.data(), narrow.data(), floats.size());
    for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(narrow[i], F32ToF16Scalar(floats[i])) << floats[i];
  });
}

TEST(ConvertTest, AnyCountAtAnyAddressAndNothingBehind) {
  const std::vector<float> floats = InterestingFloats();
  ForEachCpuTarget([&] {
    for (size_t count = 0; count < 70; ++count) {
      for (size_t shift = 0; shift < 3; ++shift) {
        std::vector<uint16_t> halves(count + shift + 8, 0xABCD);
        F32ToF16(floats.data() + shift, halves.data() + shift, count);
        for (size_t i = 0; i < halves.size(); ++i) {
          const bool inside = i >= shift && i < shift + count;
          ASSERT_EQ(halves[i], inside ? F32ToF16Scalar(floats[i]) : 0xABCD) << count << " " << shift << " " << i;
        }
        std::vector<float> wide(count + shift + 8, -7.0f);
        F16ToF32(halves.data() + shift, wide.data() + shift, count);
        for (size_t i = 0; i < wide.size(); ++i) {
          const bool inside = i >= shift && i < shift + count;
          const float want = inside ? F16ToF32Scalar(halves[i]) : -7.0f;
          ASSERT_EQ(std::bit_cast<uint32_t>(wide[i]), std::bit_cast<uint32_t>(want));
        }
      }
    }
  });
}

}  // namespace
}  // namespace inferscale::kernels
