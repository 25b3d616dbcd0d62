#include "catalog/catalog_test_util.h"
#include "catalog/catalog_threads_test_util.h"

namespace inferscale {
namespace {

using SqliteThreadsTest = CatalogTest;

TEST_F(SqliteThreadsTest, WritersAndReadersForFiveSeconds) { RunThreads(catalog(), ns_, std::chrono::seconds(5)); }

}  // namespace
}  // namespace inferscale
