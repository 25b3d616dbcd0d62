// The CPU's test vectors on the device, against the same oracle. INFERSCALE_CASES=N: so many of the grid and N / 4
// random ones instead of all (for compute-sanitizer, which is a hundred times slower).
#include <gtest/gtest.h>

#include <cstdlib>

#include "kernels/cuda/device_test_util.h"
#include "kernels/cuda/kv_transfer.h"
#include "kernels/kv_case_test_util.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {
namespace {

std::vector<KvCaseSpec> Cases() {
  const char* some = std::getenv("INFERSCALE_CASES");
  const size_t count = some == nullptr ? 0 : std::strtoul(some, nullptr, 10);
  return KvCaseGrid(count, count == 0 ? 400 : count / 4);
}

// A case's memory after the device's run, and the records' status words.
struct Outcome {
  std::vector<uint8_t> memory;
  std::vector<uint32_t> status;
  bool vectors = false;
};

// slow: the kernels for what vectors do not fit, on any plan.
Outcome RunOnDevice(KvCase& test, KvDirection direction, bool slow) {
  Outcome outcome;
  const DeviceBytes memory(test.memory());
  const KvBatch& batch = test.Batch(memory.data());
  std::vector<uint8_t> buffer(KvPlanBytes(batch));
  const Result<KvPlan> plan = BuildKvPlan(batch, direction, buffer);
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return outcome;
  }
  const DeviceBytes there(buffer);
  KvPlanView view = plan->View(there.data());
  outcome.vectors = view.vectors;
  if (slow) view.vectors = false;
  const int error = direction == KvDirection::kInject ? InjectCuda(view, nullptr) : ExtractCuda(view, nullptr);
  EXPECT_EQ(error, 0) << cudaGetErrorString(static_cast<cudaError_t>(error));
  outcome.memory = memory.Read();
  const std::vector<uint8_t> after = there.Read();
  const auto* status = reinterpret_cast<const uint32_t*>(after.data() + plan->status_offset());
  outcome.status.assign(status, status + plan->source_count());
  return outcome;
}

TEST(KvTransferCuda, InjectsWhatTheOracleSays) {
  INFERSCALE_NEEDS_DEVICE();
  size_t vectors = 0, all = 0;
  for (const KvCaseSpec& spec : Cases()) {
    KvCase test(spec, KvDirection::kInject);
    const Outcome outcome = RunOnDevice(test, KvDirection::kInject, /*slow=*/false);
    ASSERT_EQ(test.CheckInjected(outcome.memory), "") << spec.Name();
    for (const uint32_t status : outcome.status) ASSERT_EQ(status, 0u) << spec.Name();
    vectors += outcome.vectors, ++all;
  }
  RecordProperty("cases", static_cast<int>(all));
  EXPECT_GT(vectors, all / 2);
  EXPECT_LT(vectors, all);
}

TEST(KvTransferCuda, ExtractsWhatTheOracleSays) {
  INFERSCALE_NEEDS_DEVICE();
  for (const KvCaseSpec& spec : Cases()) {
    KvCase test(spec, KvDirection::kExtract);
    const Outcome outcome = RunOnDevice(test, KvDirection::kExtract, /*slow=*/false);
    ASSERT_EQ(test.CheckExtracted(outcome.memory, outcome.status), "") << spec.Name();
  }
}

TEST(KvTransferCuda, SlowKernelsAgree) {
  INFERSCALE_NEEDS_DEVICE();
  for (const KvCaseSpec& spec : KvCaseGrid(60, 0)) {
    KvCase in(spec, KvDirection::kInject);
    ASSERT_EQ(in.CheckInjected(RunOnDevice(in, KvDirection::kInject, /*slow=*/true).memory), "") << spec.Name();
    KvCase out(spec, KvDirection::kExtract);
    const Outcome outcome = RunOnDevice(out, KvDirection::kExtract, /*slow=*/true);
    ASSERT_EQ(out.CheckExtracted(outcome.memory, outcome.status), "") << spec.Name();
  }
}

TEST(KvTransferCuda, ReportsAChangedStamp) {
  INFERSCALE_NEEDS_DEVICE();
  for (const bool slow : {false, true}) {
    KvCase test(KvCaseSpec{}, KvDirection::kInject);
    test.BreakStamp(3);
    const Outcome outcome = RunOnDevice(test, KvDirection::kInject, slow);
    for (size_t i = 0; i < outcome.status.size(); ++i) {
      EXPECT_EQ(outcome.status[i], i == 3 ? (kStampChangedBefore | kStampChangedAfter) : 0u) << i;
    }
  }
}

TEST(KvTransferCuda, EmptyPlansLaunchNothing) {
  EXPECT_EQ(InjectCuda(KvPlanView{}, nullptr), 0);
  EXPECT_EQ(ExtractCuda(KvPlanView{}, nullptr), 0);
}

}  // namespace
}  // namespace inferscale::kernels
