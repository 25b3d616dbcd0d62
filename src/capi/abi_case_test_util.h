// The kernels' test vectors as a caller of the C interface would say them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "inferscale/inferscale.hpp"
#include "kernels/kv_case_test_util.h"

namespace inferscale::capi {

// A batch, and the transfer that it is for, in the header's structs. Movable in memory: never; it points to itself.
class AbiBatch {
 public:
  explicit AbiBatch(const kernels::KvBatch& batch);
  AbiBatch(const AbiBatch&) = delete;
  AbiBatch& operator=(const AbiBatch&) = delete;

  // The largest batch is this one.
  const inferscale_transfer_options& options() const { return options_; }
  const inferscale_batch& batch() const { return batch_; }
  inferscale_transfer_options& options() { return options_; }
  inferscale_batch& batch() { return batch_; }
  std::vector<inferscale_record>& records() { return records_; }
  std::vector<inferscale_layer>& layers() { return layers_; }
  std::vector<inferscale_span>& spans() { return spans_; }

 private:
  void TakeRequest(const kernels::KvRequest& request);

  inferscale_transfer_options options_{};
  inferscale_batch batch_{};
  std::vector<inferscale_layer> layers_;
  std::vector<inferscale_rope> ropes_;
  std::vector<inferscale_record> records_;
  std::vector<inferscale_span> spans_;
  std::vector<inferscale_request> requests_;
  std::vector<inferscale_table> tables_;
  std::vector<int32_t> blocks_;
};

api::Device OpenDevice(uint32_t kind);
// Fails the test, and is null, when it is refused.
api::Transfer OpenTransfer(const api::Device& device, const inferscale_transfer_options& options);

// Opens a transfer, launches, waits: the status words. memory that `batch` points to is the device's.
std::vector<uint32_t> RunThroughAbi(const api::Device& device, const kernels::KvBatch& batch,
                                    kernels::KvDirection direction, void* stream);

}  // namespace inferscale::capi
