#include "base/thread_pool.h"

#include "base/assert.h"

namespace inferscale {

namespace {
size_t SliceStart(size_t count, size_t index, size_t slices) { return count * index / slices; }
}  // namespace

ThreadPool::ThreadPool(int threads) {
  INFERSCALE_ASSERT(threads >= 1);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { Work(static_cast<size_t>(i)); });
}

ThreadPool::~ThreadPool() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::ParallelFor(size_t count, const std::function<void(size_t, size_t)>& body) {
  std::lock_guard turn(turn_);
  const size_t slices = workers_.size() + 1;
  if (slices == 1 || count < 2) {
    if (count > 0) body(0, count);
    return;
  }
  {
    std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    running_ = workers_.size();
    ++generation_;
  }
  start_.notify_all();
  body(0, SliceStart(count, 1, slices));
  std::unique_lock lock(mutex_);
  done_.wait(lock, [this] { return running_ == 0; });
  body_ = nullptr;
}

void ThreadPool::Work(size_t index) {
  uint64_t seen = 0;
  for (;;) {
    const std::function<void(size_t, size_t)>* body;
    size_t begin, end;
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || generation_ != seen; });
      if (stop_) return;
      seen = generation_;
      body = body_;
      begin = SliceStart(count_, index, workers_.size() + 1);
      end = SliceStart(count_, index + 1, workers_.size() + 1);
    }
    if (begin < end) (*body)(begin, end);
    std::lock_guard lock(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace inferscale
