// One io_uring for reads. Not thread-safe.
#pragma once

#include <liburing.h>

#include <memory>
#include <span>
#include <vector>

#include "store/batch_reader.h"

namespace inferscale {

class ReadRing {
 public:
  // Null: the kernel refuses.
  static std::unique_ptr<ReadRing> Create();
  ~ReadRing();
  ReadRing(const ReadRing&) = delete;
  ReadRing& operator=(const ReadRing&) = delete;

  // complete[i]: all of ops[i] is in its buffers. Else (short, refused, failed) a plain read has to say what is wrong.
  // [ops.size()] On return no read is under way.
  std::vector<bool> ReadAll(std::span<const ReadOp> ops);
  // False: the kernel took no more; entries that it never saw are still queued, so the ring must go.
  bool usable() const { return usable_; }

 private:
  ReadRing() = default;
  bool Prepare(const ReadOp& op, size_t index);

  io_uring ring_{};
  bool usable_ = true;
  std::vector<iovec> vectors_;  // two for each operation, in place while it is under way
};

}  // namespace inferscale
