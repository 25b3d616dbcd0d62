#include "capi/handle_table.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace inferscale::capi {
namespace {

struct Opaque;
struct Other;

TEST(HandleTable, FindsWhatIsOpenAndNothingElse) {
  HandleTable<int, Opaque> table("thing");
  HandleTable<int, Other> others("other");
  Opaque* a = *table.Add(std::make_shared<int>(1));
  Other* b = *others.Add(std::make_shared<int>(2));
  EXPECT_EQ(**table.Find(a), 1);
  EXPECT_EQ(**others.Find(b), 2);
  int local = 0;
  for (const void* wrong : {static_cast<const void*>(b), static_cast<const void*>(&local)}) {
    const auto found = table.Find(static_cast<const Opaque*>(wrong));
    ASSERT_FALSE(found.has_value());
    EXPECT_EQ(found.error().code, ErrorCode::kNotFound);
  }
  EXPECT_NE(table.Find(nullptr).error().message.find("null"), std::string::npos);
  EXPECT_TRUE(table.Take(a).has_value());
  EXPECT_FALSE(table.Take(a).has_value());
  EXPECT_FALSE(table.Find(a).has_value());
}

TEST(HandleTable, HandlesAreNeverUsedTwice) {
  HandleTable<int, Opaque> table("thing");
  Opaque* before = *table.Add(std::make_shared<int>(1));
  ASSERT_TRUE(table.Take(before).has_value());
  EXPECT_NE(*table.Add(std::make_shared<int>(1)), before);
}

TEST(HandleTable, HasALimit) {
  HandleTable<int, Opaque> table("thing");
  const auto object = std::make_shared<int>(1);
  Opaque* last = nullptr;
  for (size_t i = 0; i < limits::kApiHandles; ++i) last = *table.Add(object);
  const auto refused = table.Add(object);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kInUse);
  ASSERT_TRUE(table.Take(last).has_value());
  EXPECT_TRUE(table.Add(object).has_value());
}

TEST(HandleTable, AnObjectLivesUntilTheLastUse) {
  HandleTable<int, Opaque> table("thing");
  Opaque* handle = *table.Add(std::make_shared<int>(7));
  const std::shared_ptr<int> used = *table.Find(handle);
  ASSERT_TRUE(table.Take(handle).has_value());
  EXPECT_EQ(*used, 7);
}

TEST(HandleTable, ManyThreads) {
  HandleTable<int, Opaque> table("thing");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&table, t] {
      for (int i = 0; i < 500; ++i) {
        Opaque* handle = *table.Add(std::make_shared<int>(t));
        EXPECT_EQ(**table.Find(handle), t);
        EXPECT_TRUE(table.Take(handle).has_value());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace inferscale::capi
