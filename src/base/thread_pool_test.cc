#include "base/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace inferscale {
namespace {

TEST(ThreadPoolTest, EveryIndexOnce) {
  for (const int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.threads(), threads);
    for (const size_t count : {0u, 1u, 2u, 3u, 7u, 8u, 9u, 1000u}) {
      std::vector<std::atomic<int>> seen(count);
      std::atomic<int> calls{0};
      pool.ParallelFor(count, [&](size_t begin, size_t end) {
        EXPECT_LE(begin, end);
        EXPECT_LE(end, count);
        ++calls;
        for (size_t i = begin; i < end; ++i) ++seen[i];
      });
      for (size_t i = 0; i < count; ++i) EXPECT_EQ(seen[i], 1) << threads << " threads, " << count << ", " << i;
      EXPECT_LE(calls, threads);
    }
  }
}

TEST(ThreadPoolTest, SlicesRunOnDifferentThreadsAtOnce) {
  ThreadPool pool(3);
  std::atomic<int> arrived{0};
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // Each slice waits until all three have begun: one thread alone would never get further (hence the time limit).
  pool.ParallelFor(3, [&](size_t, size_t) {
    ++arrived;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (arrived < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    std::lock_guard lock(mutex);
    ids.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(arrived, 3);
  EXPECT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 1u);  // the caller works too
}

TEST(ThreadPoolTest, OneThreadRunsInline) {
  ThreadPool pool(1);
  std::thread::id id;
  pool.ParallelFor(10, [&](size_t begin, size_t end) {
    EXPECT_EQ(begin, 0u);
    EXPECT_EQ(end, 10u);
    id = std::this_thread::get_id();
  });
  EXPECT_EQ(id, std::this_thread::get_id());
}

TEST(ThreadPoolTest, ManyShortLoopsFromManyCallers) {
  ThreadPool pool(3);
  std::atomic<size_t> sum{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        size_t mine = 0;  // written by the pool's threads, read after ParallelFor: must be visible without a lock
        std::vector<size_t> parts(10, 0);
        pool.ParallelFor(10, [&](size_t begin, size_t end) {
          for (size_t i = begin; i < end; ++i) parts[i] = i;
        });
        for (const size_t part : parts) mine += part;
        sum += mine;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(sum, 4u * 500u * 45u);
}

TEST(ThreadPoolTest, StopsUnused) {
  for (int i = 0; i < 50; ++i) ThreadPool pool(4);
}

TEST(ThreadPoolDeathTest, NoThreadsIsOurBug) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(ThreadPool(0), "threads >= 1");
}

}  // namespace
}  // namespace inferscale
