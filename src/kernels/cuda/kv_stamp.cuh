// The check that a source's bytes are the record's that the plan means.
#pragma once

#include <cstdint>

#include "kernels/kv_plan.h"

namespace inferscale::kernels {

// Reads of stamps must not be taken from a cache that the writer does not see. Two reads of 16 bytes: over the link,
// reads of one line go one after the other, 1 µs each.
__device__ inline bool StampIs(const RecordStamp* stamp, const RecordStamp& expected) {
  if (stamp == nullptr) return true;
  bool same = true;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    uint64_t now[2];
    asm volatile("ld.volatile.global.v2.u64 {%0, %1}, [%2];"
                 : "=l"(now[0]), "=l"(now[1])
                 : "l"(reinterpret_cast<const uint64_t*>(stamp) + 2 * i)
                 : "memory");
    const uint64_t* want = reinterpret_cast<const uint64_t*>(&expected) + 2 * i;
    same &= now[0] == want[0] && now[1] == want[1];
  }
  return same;
}

__device__ inline void CheckStamps(const KvPlanView& plan, uint32_t source, uint32_t flag) {
  const KvSource& record = plan.sources[source];
  if (record.stamp == nullptr && record.origin == nullptr) return;
  if (StampIs(record.stamp, record.expected) && StampIs(record.origin, record.expected)) return;
  atomicOr(plan.status + source, flag);
}

}  // namespace inferscale::kernels
