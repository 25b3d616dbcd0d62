// The check that a source's bytes are the record's that the plan means.
#pragma once

#include <cstdint>

#include "kernels/kv_plan.h"

namespace inferscale::kernels {

// Reads of stamps must not be taken from a cache that the writer does not see.
__device__ inline bool StampIs(const RecordStamp* stamp, const RecordStamp& expected) {
  if (stamp == nullptr) return true;
  const volatile uint64_t* now = reinterpret_cast<const volatile uint64_t*>(stamp);
  const uint64_t* want = reinterpret_cast<const uint64_t*>(&expected);
  bool same = true;
#pragma unroll
  for (int i = 0; i < 4; ++i) same &= now[i] == want[i];
  return same;
}

__device__ inline void CheckStamps(const KvPlanView& plan, uint32_t source, uint32_t flag) {
  const KvSource& record = plan.sources[source];
  if (record.stamp == nullptr && record.origin == nullptr) return;
  if (StampIs(record.stamp, record.expected) && StampIs(record.origin, record.expected)) return;
  atomicOr(plan.status + source, flag);
}

}  // namespace inferscale::kernels
