#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>

#include "base/assert.h"

namespace inferscale {
namespace {

TEST(ErrorTest, EveryCodeHasItsOwnName) {
  std::set<std::string_view> names;
  size_t known = 0;
  for (int code = 0; code < 1000; ++code) {
    const std::string_view name = ErrorCodeName(static_cast<ErrorCode>(code));
    if (name == "unknown") continue;
    ++known;
    names.insert(name);
  }
  EXPECT_GE(known, 18u);
  EXPECT_EQ(names.size(), known);
  EXPECT_EQ(ErrorCodeName(ErrorCode::kNoSpace), "no_space");
}

Result<std::unique_ptr<int>> Make(bool fail) {
  if (fail) return Fail(ErrorCode::kIo, "no luck");
  return std::make_unique<int>(7);
}

Result<int> Use(bool fail, bool* passed) {
  TRY(Make(fail));
  *passed = true;
  TRY_ASSIGN(std::unique_ptr<int> value, Make(fail));  // move-only values come through
  return *value;
}

TEST(ErrorTest, TryReturnsTheErrorOrGoesOn) {
  bool passed = false;
  const Result<int> failed = Use(true, &passed);
  ASSERT_FALSE(failed);
  EXPECT_FALSE(passed);
  EXPECT_EQ(failed.error().code, ErrorCode::kIo);
  EXPECT_EQ(failed.error().message, "no luck");
  EXPECT_EQ(Use(false, &passed).value(), 7);
  EXPECT_TRUE(passed);
}

TEST(ErrorTest, WrapKeepsTheCode) {
  const Status wrapped = Wrap(Error{ErrorCode::kInvalidJson, "a comma is missing"}, "facts.jsonl: line 3");
  EXPECT_EQ(wrapped.error().code, ErrorCode::kInvalidJson);
  EXPECT_EQ(wrapped.error().message, "facts.jsonl: line 3: a comma is missing");
}

TEST(AssertDeathTest, SaysWhatAndWhere) {
  INFERSCALE_ASSERT(1 + 1 == 2);
  EXPECT_DEATH(INFERSCALE_ASSERT(1 + 1 == 3), "1 \\+ 1 == 3.*error_test.cc");
}

}  // namespace
}  // namespace inferscale
