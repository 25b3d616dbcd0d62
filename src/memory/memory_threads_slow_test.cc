#include "memory/memory_threads_test_util.h"

namespace inferscale {
namespace {

TEST_F(MemoryThreadsTest, WritersAndReadersForAMinute) { RunThreads(std::chrono::seconds(60)); }

}  // namespace
}  // namespace inferscale
