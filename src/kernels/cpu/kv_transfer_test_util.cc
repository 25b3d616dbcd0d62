#include "kernels/cpu/kv_transfer_test_util.h"

#include <gtest/gtest.h>

#include <utility>

#include "kernels/cpu/kv_transfer.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {

KvOutcome RunOnCpu(const KvBatch& batch, KvDirection direction, std::vector<uint8_t> memory) {
  KvOutcome outcome{std::move(memory), {}};
  std::vector<uint8_t> buffer(KvPlanBytes(batch));
  const Result<KvPlan> plan = BuildKvPlan(batch, direction, buffer);
  if (!plan) {
    ADD_FAILURE() << plan.error().message;
    return outcome;
  }
  // At another place than it was built, as on a device.
  std::vector<uint8_t> moved(buffer.begin(), buffer.begin() + plan->bytes());
  const KvPlanView view = plan->View(moved.data());
  direction == KvDirection::kInject ? InjectCpu(view) : ExtractCpu(view);
  outcome.status.assign(view.status, view.status + view.source_count);
  return outcome;
}

KvOutcome RunOnCpu(KvCase& test, KvDirection direction) {
  std::vector<uint8_t> memory = test.memory();
  const KvBatch& batch = test.Batch(memory.data());
  return RunOnCpu(batch, direction, std::move(memory));  // a moved vector keeps its address
}

}  // namespace inferscale::kernels
