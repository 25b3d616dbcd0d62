// The checks of BuildKvPlan (kv_plan_builder.h).
#pragma once

#include "base/error.h"
#include "kernels/kv_plan.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {

// kInvalidArgument or kTooLarge with the reason.
Status CheckKvBatch(const KvBatch& batch, KvDirection direction);

// Whether every row of the batch can be moved in groups of eight elements: 16 bytes of bf16, 8 of int8 or fp8.
bool MovesInVectors(const KvBatch& batch, KvDirection direction);

}  // namespace inferscale::kernels
