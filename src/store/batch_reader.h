// Many reads at once: by io_uring where the kernel allows it, else by pread in threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/file_ops.h"
#include "base/thread_pool.h"

namespace inferscale {

// Reads head.size() + body.size() bytes from `offset` on, into the one and then the other.
struct ReadOp {
  File* file = nullptr;
  uint64_t offset = 0;
  std::span<std::byte> head, body;
  Status status;  // set by ReadAll: kNotFound when the file ends within, kIo
};

class ReadRing;

// Thread-safe.
class BatchReader {
 public:
  // threads: 0: one per core.
  BatchReader(int threads, bool io_uring);
  ~BatchReader();

  // Whether io_uring is used: asked for and not refused (old kernels, containers, sysctl kernel.io_uring_disabled).
  bool uses_io_uring() const { return io_uring_; }

  // Sets the status of each, and calls done(i) for each that was read, from several threads at once.
  void ReadAll(std::span<ReadOp> ops, const std::function<void(size_t)>& done);

 private:
  std::unique_ptr<ReadRing> TakeRing();
  void GiveRing(std::unique_ptr<ReadRing> ring);

  ThreadPool pool_;
  bool io_uring_ = false;  // constant after construction

  std::mutex mutex_;
  std::vector<std::unique_ptr<ReadRing>> idle_;  // guarded by mutex_
};

}  // namespace inferscale
