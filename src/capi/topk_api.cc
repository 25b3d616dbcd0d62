// Exact top-k.
#include <string>

#include "base/limits.h"
#include "capi/api_call.h"
#include "capi/given_batch.h"
#include "capi/handles.h"
#include "capi/sized_struct.h"
#include "inferscale/inferscale.h"

namespace inferscale::capi {
namespace {

using kernels::TopkArgs;

Result<TopkArgs> TakeArgs(const inferscale_topk_args* given) {
  TRY_ASSIGN(const size_t bytes, GivenBytes(given, "args"));
  inferscale_topk_args a{};
  std::memcpy(&a, given, std::min(bytes, sizeof a));
  return TopkArgs{.vectors = a.vectors,
                  .vector_stride = a.vector_stride,
                  .vector_scales = a.vector_scales,
                  .mask = a.mask,
                  .slots = a.slots,
                  .queries = a.queries,
                  .query_stride = a.query_stride,
                  .query_scales = a.query_scales,
                  .rows = a.rows,
                  .dim = a.dim,
                  .query_count = a.query_count,
                  .k = a.k,
                  .type = Narrow<kernels::VectorType>(a.type),
                  .out_scores = a.out_scores,
                  .out_rows = a.out_rows,
                  .out_slots = a.out_slots};
}

}  // namespace
}  // namespace inferscale::capi

using namespace inferscale;
using namespace inferscale::capi;

inferscale_status inferscale_topk_workspace_bytes(inferscale_device* device, const inferscale_topk_args* given,
                                                  uint64_t* bytes) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Backend> backend, AllDevices().Find(device));
    if (bytes == nullptr) return Fail(ErrorCode::kInvalidArgument, "bytes is null");
    TRY_ASSIGN(const TopkArgs args, TakeArgs(given));
    if (args.rows > limits::kTopkRows || args.k > limits::kTopkOnDevice || args.query_count > limits::kTopkQueries) {
      return Fail(ErrorCode::kTooLarge, "more rows, queries or results than one search may have");
    }
    const OnDevice on(*backend);
    *bytes = backend->TopkWorkspaceBytes(args);
    return {};
  });
}

inferscale_status inferscale_topk(inferscale_device* device, const inferscale_topk_args* given, void* workspace,
                                  uint64_t workspace_bytes, void* stream) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Backend> backend, AllDevices().Find(device));
    TRY_ASSIGN(const TopkArgs args, TakeArgs(given));
    TRY(kernels::CheckTopk(args));
    TRY(backend->CheckStream(stream));
    const OnDevice on(*backend);
    const uint64_t needed = backend->TopkWorkspaceBytes(args);
    if (needed > workspace_bytes || (needed > 0 && workspace == nullptr) ||
        reinterpret_cast<uintptr_t>(workspace) % 16 != 0) {
      return Fail(ErrorCode::kInvalidArgument, "the workspace has " + std::to_string(workspace_bytes) + " bytes, but " +
                                                   std::to_string(needed) + ", 16-byte aligned, are needed");
    }
    return backend->Topk(args, workspace, stream);
  });
}
