#include "kernels/cpu/cpu_targets_test_util.h"

#include <gtest/gtest.h>

#include "hwy/highway.h"

namespace inferscale::kernels {

void ForEachCpuTarget(const std::function<void()>& body) {
  const int64_t all = hwy::SupportedTargets() & HWY_TARGETS;
  ASSERT_NE(all, 0);  // on x86-64 with AVX2: AVX2, SSE4, SSSE3 and plain C++
  for (int64_t rest = all; rest != 0; rest &= rest - 1) {
    const int64_t target = rest & -rest;
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

}  // namespace inferscale::kernels
