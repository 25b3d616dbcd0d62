// 8 writers and 32 readers on one durable memory.
#pragma once

#include <chrono>

#include "memory/memory_test_util.h"

namespace inferscale {

class MemoryThreadsTest : public MemoryTest {
 protected:
  // Checks with gtest: no call fails, no update is lost, no result that began after a deletion returned has the fact.
  void RunThreads(std::chrono::seconds duration);
};

}  // namespace inferscale
