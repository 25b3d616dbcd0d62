#include "app/console.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>

namespace inferscale {
namespace {

// The tests' standard error is a pipe or a file, so each update that is shown is a line.
std::string Shown(const std::function<void(ProgressBar&)>& use) {
  testing::internal::CaptureStderr();
  {
    ProgressBar bar("Encoding", "facts");
    use(bar);
  }
  return testing::internal::GetCapturedStderr();
}

TEST(ProgressBarTest, NoEstimateBeforeThereIsARate) {
  EXPECT_EQ(Shown([](ProgressBar& bar) { bar.Update(32, 135); }), "Encoding 32/135\n");
}

TEST(ProgressBarTest, TheRateIsThatSinceTheFirstUpdate) {
  const std::string shown = Shown([](ProgressBar& bar) {
    const std::chrono::steady_clock::time_point start;
    bar.Update(1000, 1010, start);  // done by somebody else
    bar.Update(1004, 1010, start + std::chrono::seconds(4));
    bar.Update(1005, 1010, start + std::chrono::seconds(10));
    bar.Update(1010, 1010, start + std::chrono::seconds(11));
  });
  EXPECT_EQ(shown, "Encoding 1000/1010\nEncoding 1005/1010, 0.5 facts/s, 10 s left\nEncoding 1010/1010, 0.9 facts/s\n");
}

TEST(ConsoleTest, JsonIsValidUtf8WhateverItHolds) {
  testing::internal::CaptureStdout();
  PrintJson({{"path", "m\xff.gguf"}});
  const std::string printed = testing::internal::GetCapturedStdout();
  EXPECT_EQ(nlohmann::json::parse(printed).at("path"), "m\xEF\xBF\xBD.gguf");
}

TEST(ConsoleTest, OneStatusForEachRange) {
  EXPECT_EQ(ExitStatus(ErrorCode::kConflict), 2);
  EXPECT_EQ(ExitStatus(ErrorCode::kNoSpace), 3);
  EXPECT_EQ(ExitStatus(ErrorCode::kCorrupt), 4);
  EXPECT_EQ(ExitStatus(ErrorCode::kModelLoad), 5);
  EXPECT_EQ(ExitStatus(ErrorCode::kCancelled), 130);
  EXPECT_EQ(ExitStatus(ErrorCode::kInternal), 70);
}

}  // namespace
}  // namespace inferscale
