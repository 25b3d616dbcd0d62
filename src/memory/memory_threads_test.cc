#include "memory/memory_threads_test_util.h"

namespace inferscale {
namespace {

TEST_F(MemoryThreadsTest, WritersAndReadersForFiveSeconds) { RunThreads(std::chrono::seconds(5)); }

}  // namespace
}  // namespace inferscale
