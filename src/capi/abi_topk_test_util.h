// The cases of exact top-k as a caller of the C interface would say them.
#pragma once

#include "capi/abi_case_test_util.h"
#include "inferscale/inferscale.h"
#include "kernels/topk_case_test_util.h"

namespace inferscale::capi {

inline inferscale_topk_args ToAbi(const kernels::TopkArgs& args) {
  return {.struct_bytes = sizeof(inferscale_topk_args),
          .type = static_cast<uint32_t>(args.type),
          .rows = args.rows,
          .dim = args.dim,
          .query_count = args.query_count,
          .k = args.k,
          .vectors = args.vectors,
          .vector_stride = args.vector_stride,
          .vector_scales = args.vector_scales,
          .mask = args.mask,
          .slots = args.slots,
          .queries = args.queries,
          .query_stride = args.query_stride,
          .query_scales = args.query_scales,
          .out_scores = args.out_scores,
          .out_rows = args.out_rows,
          .out_slots = args.out_slots};
}

}  // namespace inferscale::capi
