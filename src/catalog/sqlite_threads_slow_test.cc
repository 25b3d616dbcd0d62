#include "catalog/catalog_test_util.h"
#include "catalog/catalog_threads_test_util.h"

namespace inferscale {
namespace {

using SqliteThreadsSlowTest = CatalogTest;

TEST_F(SqliteThreadsSlowTest, WritersAndReadersForAMinute) { RunThreads(catalog(), ns_, std::chrono::seconds(60)); }

}  // namespace
}  // namespace inferscale
