#include "kernels/cpu/kv_transfer.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kv_transfer_test_util.h"
#include "kernels/cpu/small_float.h"
#include "kernels/kv_case_test_util.h"

namespace inferscale::kernels {
namespace {

// Of the 4,200 of the grid; kv_transfer_slow_test.cc runs them all.
constexpr size_t kGridCases = 100, kFuzzedCases = 40;

TEST(KvTransfer, InjectsWhatTheOracleSays) {
  for (const KvCaseSpec& spec : KvCaseGrid(kGridCases, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kInject);
    const KvOutcome outcome = RunOnCpu(test, KvDirection::kInject);
    ASSERT_EQ(test.CheckInjected(outcome.memory), "") << spec.Name();
    for (const uint32_t status : outcome.status) ASSERT_EQ(status, 0u) << spec.Name();
  }
}

TEST(KvTransfer, ExtractsWhatTheOracleSays) {
  for (const KvCaseSpec& spec : KvCaseGrid(kGridCases, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kExtract);
    const KvOutcome outcome = RunOnCpu(test, KvDirection::kExtract);
    ASSERT_EQ(test.CheckExtracted(outcome.memory, outcome.status), "") << spec.Name();
  }
}

// The checks must be able to fail.
TEST(KvTransfer, OracleFindsAWrongPositionAByteOutsideAndAMissingRow) {
  KvCaseSpec spec;
  spec.rotary_dims = 64;
  KvCase test(spec, KvDirection::kInject);
  KvOutcome outcome = RunOnCpu(test, KvDirection::kInject);
  ASSERT_EQ(test.CheckInjected(outcome.memory), "");
  EXPECT_NE(test.CheckInjected(test.memory()), "");
  outcome.memory.back() ^= 1;
  EXPECT_NE(test.CheckInjected(outcome.memory), "");

  // Rotated by the next position's angles.
  std::vector<uint8_t> memory = test.memory();
  KvBatch batch = test.Batch(memory.data());
  RopeRows rope = batch.ropes[0];
  rope.rows = static_cast<const uint8_t*>(rope.rows) + rope.row_stride;
  batch.ropes = {&rope, 1};
  EXPECT_NE(test.CheckInjected(RunOnCpu(batch, KvDirection::kInject, std::move(memory)).memory), "");
}

TEST(KvTransfer, ReportsAChangedStamp) {
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  test.BreakStamp(3);
  const KvOutcome outcome = RunOnCpu(test, KvDirection::kInject);
  for (size_t i = 0; i < outcome.status.size(); ++i) {
    EXPECT_EQ(outcome.status[i], i == 3 ? (kStampChangedBefore | kStampChangedAfter) : 0u) << i;
  }
}

TEST(SmallFloat, EveryFp8ComesBack) {
  for (int bits = 0; bits < 256; ++bits) {
    const float value = Fp8ToF32(static_cast<uint8_t>(bits));
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      continue;
    }
    EXPECT_EQ(F32ToFp8(value), bits) << value;
    if ((bits & 0x7F) == 0x7E) continue;
    // Half way to the next one: to the even one of the two; beyond it: to the next.
    const float next = Fp8ToF32(static_cast<uint8_t>(bits + 1)), middle = (value + next) / 2;
    EXPECT_EQ(F32ToFp8(middle), bits % 2 == 0 ? bits : bits + 1) << middle;
    EXPECT_EQ(F32ToFp8(std::nextafter(middle, next)), bits + 1);
    EXPECT_EQ(F32ToFp8(std::nextafter(middle, value)), bits);
  }
  EXPECT_EQ(F32ToFp8(448.0f), 0x7E);
  EXPECT_EQ(F32ToFp8(-1e30f), 0xFE);
  EXPECT_EQ(F32ToFp8(std::numeric_limits<float>::infinity()), 0x7E);
  EXPECT_EQ(F32ToFp8(std::numeric_limits<float>::quiet_NaN()) & 0x7F, 0x7F);
}

TEST(SmallFloat, Bf16RoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x7F80; ++bits) {
    const auto here = static_cast<uint16_t>(bits);
    const float value = Bf16ToF32(here);
    EXPECT_EQ(F32ToBf16(value), here);
    if (bits == 0x7F7F) continue;  // the next is infinity
    const float middle = std::bit_cast<float>((bits << 16) + 0x8000);
    EXPECT_EQ(F32ToBf16(middle), bits % 2 == 0 ? bits : bits + 1);
    EXPECT_EQ(F32ToBf16(-middle), 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
    EXPECT_EQ(F32ToBf16(std::nextafter(middle, 0.0f)), bits);
  }
  EXPECT_TRUE(std::isnan(Bf16ToF32(F32ToBf16(std::numeric_limits<float>::quiet_NaN()))));
}

}  // namespace
}  // namespace inferscale::kernels
