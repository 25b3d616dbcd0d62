// The C interface's descriptions of caches and batches as the kernels have them. Pointers, counts and ranges are
// checked here; what the numbers mean is checked by the plan builder.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "inferscale/inferscale.h"
#include "kernels/kv_plan.h"

namespace inferscale::capi {

// Enum numbers of the header are wider than ours: a number that does not fit becomes one that no enum has.
template <class Enum>
Enum Narrow(uint32_t number) {
  return static_cast<Enum>(number < 255 ? number : 255);
}

kernels::RecordStamp ToStamp(const inferscale_stamp& stamp);
kernels::PayloadShape ToShape(const inferscale_shape& shape);
const kernels::RecordStamp* ToStampAddress(const inferscale_stamp* stamp);

// What a transfer is opened with, and the batches that are given to it. Memory is taken when it is made.
class GivenBatch {
 public:
  // kInvalidArgument names the layer, table or number that is wrong.
  static Result<GivenBatch> Make(const inferscale_transfer_options* options);

  // Valid until the next call; block tables stay where the caller has them.
  Result<const kernels::KvBatch*> Convert(const inferscale_batch* given);

  size_t ring() const { return options_.ring; }
  size_t PlanBytes() const;  // of the largest batch, at most

 private:
  explicit GivenBatch(const inferscale_transfer_options& options);
  Status TakeCache();
  Status TakeRequest(const inferscale_batch& given, uint32_t r);

  inferscale_transfer_options options_;
  std::vector<kernels::CacheLayer> layers_;
  std::vector<kernels::RopeRows> ropes_;
  // Of the last batch.
  std::vector<kernels::KvSource> sources_;
  std::vector<kernels::KvSpan> spans_;  // of all requests, in their order
  std::vector<std::span<const int32_t>> tables_;
  std::vector<kernels::KvRequest> requests_;
  uint64_t tokens_ = 0, blocks_ = 0;
  kernels::KvBatch batch_;
};

}  // namespace inferscale::capi
