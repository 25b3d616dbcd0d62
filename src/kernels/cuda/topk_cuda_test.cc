// The CPU's test vectors on the device, against the same oracle. INFERSCALE_CASES=N: every so many that N remain (for
// compute-sanitizer, which is a hundred times slower).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "kernels/cpu/topk.h"
#include "kernels/cuda/device_test_util.h"
#include "kernels/cuda/topk.h"
#include "kernels/topk_case_test_util.h"

namespace inferscale::kernels {
namespace {

std::vector<TopkCaseSpec> Cases() {
  const std::vector<TopkCaseSpec> all = TopkCases();
  const char* some = std::getenv("INFERSCALE_CASES");
  const size_t count = some == nullptr ? all.size() : std::strtoul(some, nullptr, 10);
  std::vector<TopkCaseSpec> cases;
  for (size_t i = 0; i < count; ++i) cases.push_back(all[i * all.size() / count]);
  return cases;
}

constexpr uint8_t kGuard = 0xB7;
constexpr size_t kGuardBytes = 256;

// The case's memory after the device's search. The workspace begins as noise, with a guard behind it.
std::vector<uint8_t> RunOnDevice(const TopkCase& test) {
  const DeviceBytes memory(test.memory());
  const TopkArgs args = test.Args(memory.data());
  const size_t bytes = TopkWorkspaceBytes(args);
  const DeviceBytes workspace(std::vector<uint8_t>(bytes + kGuardBytes, kGuard));
  const int error = TopkCuda(args, workspace.data(), nullptr);
  EXPECT_EQ(error, 0) << cudaGetErrorString(static_cast<cudaError_t>(error));
  const std::vector<uint8_t> after = workspace.Read();
  EXPECT_EQ(std::count(after.begin() + static_cast<std::ptrdiff_t>(bytes), after.end(), kGuard), kGuardBytes);
  return memory.Read();
}

TEST(TopkCuda, FindsWhatTheOracleFinds) {
  INFERSCALE_NEEDS_DEVICE();
  size_t cases = 0;
  for (const TopkCaseSpec& spec : Cases()) {
    const TopkCase test(spec);
    ASSERT_EQ(test.Check(RunOnDevice(test)), "") << spec.Name();
    ++cases;
  }
  RecordProperty("cases", static_cast<int>(cases));
}

// int8, and sums that are exact in f16: bit by bit what the CPU finds.
TEST(TopkCuda, SameBitsAsTheCpu) {
  INFERSCALE_NEEDS_DEVICE();
  size_t compared = 0;
  for (const TopkCaseSpec& spec : Cases()) {
    if (spec.type != VectorType::kInt8 && spec.data != TopkData::kTies) continue;
    if (spec.data == TopkData::kSpecial) continue;  // a NaN has many bit patterns on the way, one in the results
    const TopkCase test(spec);
    std::vector<uint8_t> memory = test.memory();
    TopkCpu(test.Args(memory.data()));
    ASSERT_EQ(RunOnDevice(test), memory) << spec.Name();
    ++compared;
  }
  EXPECT_GT(compared, 0u);
}

}  // namespace
}  // namespace inferscale::kernels
