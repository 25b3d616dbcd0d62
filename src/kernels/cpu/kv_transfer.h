// Inject and extract on the CPU: the very descriptors of the CUDA kernels, in plain loops. It is what the CPU build's
// C ABI runs on, and the bridge between the CUDA kernels and the tests' double-precision oracle.
#pragma once

#include "kernels/kv_plan.h"

namespace inferscale::kernels {

// Source records -> cache: dequantised, keys rotated to their positions, rounded once to the cache's type. Blocks that
// a request does not have are skipped. Sets the sources' status words. All pointers of the plan must be the host's.
void InjectCpu(const KvPlanView& plan);

// Cache -> source records: keys rotated back (the transposed rotation divided by c * c + s * s, since rounded tables
// are not of unit length), quantised as the record's encoding says. Tokens in blocks that the request does not have
// are left as they are. Adds the number of clipped K values to the sources' status words.
void ExtractCpu(const KvPlanView& plan);

}  // namespace inferscale::kernels
