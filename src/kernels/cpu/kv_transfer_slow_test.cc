// The whole grid of test vectors, and more random ones, against the oracle.
#include <gtest/gtest.h>

#include "kernels/cpu/kv_transfer_test_util.h"
#include "kernels/kv_case_test_util.h"

namespace inferscale::kernels {
namespace {

constexpr size_t kFuzzedCases = 300;

TEST(KvTransferGrid, Injects) {
  for (const KvCaseSpec& spec : KvCaseGrid(0, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kInject);
    ASSERT_EQ(test.CheckInjected(RunOnCpu(test, KvDirection::kInject).memory), "") << spec.Name();
  }
}

TEST(KvTransferGrid, Extracts) {
  for (const KvCaseSpec& spec : KvCaseGrid(0, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kExtract);
    const KvOutcome outcome = RunOnCpu(test, KvDirection::kExtract);
    ASSERT_EQ(test.CheckExtracted(outcome.memory, outcome.status), "") << spec.Name();
  }
}

}  // namespace
}  // namespace inferscale::kernels
