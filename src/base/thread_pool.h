// A fixed set of threads for short data-parallel loops: composing a prompt's KV takes milliseconds, so threads are made
// once, not per call.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace inferscale {

class ThreadPool {
 public:
  // threads >= 1 in all, the caller's included: ThreadPool(1) runs everything inline.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  // Calls body(begin, end) on disjoint slices that cover [0, count), one per thread; returns when all are done.
  // One ParallelFor at a time per pool (calls from several threads take turns); body must not throw.
  void ParallelFor(size_t count, const std::function<void(size_t, size_t)>& body);

 private:
  void Work(size_t index);

  std::mutex turn_;  // held by the caller of ParallelFor
  std::mutex mutex_;
  std::condition_variable start_, done_;
  // Guarded by mutex_.
  const std::function<void(size_t, size_t)>* body_ = nullptr;
  size_t count_ = 0;
  uint64_t generation_ = 0;
  size_t running_ = 0;
  bool stop_ = false;

  std::vector<std::thread> workers_;  // constant after construction
};

}  // namespace inferscale
