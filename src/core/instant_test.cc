#include "core/instant.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <ctime>
#include <random>
#include <string>

namespace inferscale {
namespace {

int64_t Begin(std::string_view text) {
  const auto time = ParseTime(text);
  EXPECT_TRUE(time) << text << ": " << (time ? "" : time.error().message);
  return time ? time->begin_us : 0;
}

TEST(InstantTest, DaysAndTimes) {
  EXPECT_EQ(*ParseTime("1970-01-01"), (TimeRange{0, 86'400'000'000}));
  EXPECT_EQ(*ParseTime("1970-01-01T00:00:01Z"), (TimeRange{1'000'000, 1'000'001}));
  EXPECT_EQ(Begin("2024-03-01T09:30"), 1'709'285'400'000'000);
  EXPECT_EQ(Begin("1969-12-31T23:59:59.999999Z"), -1);
  EXPECT_EQ(Begin("0001-01-01T00:00:00Z"), kFirstInstant);
  EXPECT_EQ(Begin("9999-12-31T23:59:59.999999Z"), kLastInstant);
  EXPECT_EQ(DayRange({9999, 12, 31}).end_us, kLastInstant + 1);
}

TEST(InstantTest, AllSpellingsOfOneInstant) {
  const int64_t instant = Begin("2024-03-01T09:30:15.25Z");
  for (const char* text : {"2024-03-01 09:30:15.25", "2024-03-01t09:30:15,250z", "2024-03-01T17:30:15.250000+08:00",
                           "2024-03-01T17:30:15.25+0800", "2024-03-01T17:30:15.25+08", "2024-03-01T06:00:15.25-03:30",
                           "2024-02-29T23:30:15.2500009-10:00"})
    EXPECT_EQ(Begin(text), instant) << text;
}

TEST(InstantTest, Refused) {
  for (const char* text : {"",
                           "2024",
                           "2024-3-1",
                           "2023-02-29",
                           "2024-03-01T",
                           "2024-03-01T9:30",
                           "2024-03-01T24:00",
                           "2024-03-01T09:60",
                           "2024-03-01T09:30:60",
                           "2024-03-01T09:30:",
                           "2024-03-01T09:30:15.",
                           "2024-03-01T09:30:15.2x",
                           "2024-03-01X09:30",
                           "2024-03-01T09:30+",
                           "2024-03-01T09:30+8",
                           "2024-03-01T09:30+08:",
                           "2024-03-01T09:30+08:0",
                           "2024-03-01T09:30+24:00",
                           "2024-03-01T09:30ZZ",
                           "2024-03-01T09:30Z ",
                           "2024-03-01 ",
                           "0001-01-01T00:00+01:00",
                           "9999-12-31T23:59-00:01",
                           "today"}) {
    const auto time = ParseTime(text);
    ASSERT_FALSE(time) << text;
    EXPECT_EQ(time.error().code, ErrorCode::kInvalidDate);
  }
}

// The C library's calendar.
TEST(InstantTest, AgreesWithTheSystem) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 20'000; ++i) {
    const auto seconds = static_cast<std::time_t>(random() % 315'537'897'600) + kFirstInstant / 1'000'000;
    std::tm tm;
    ASSERT_NE(gmtime_r(&seconds, &tm), nullptr);
    char text[64];
    std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02dZ", tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday,
                  tm.tm_hour, tm.tm_min, tm.tm_sec);
    ASSERT_EQ(Begin(text), seconds * 1'000'000) << text;
    const Date day = DayOf(seconds * 1'000'000 + 999'999);
    ASSERT_EQ(day.Iso(), std::string(text, 10));
    const TimeRange range = DayRange(day);
    ASSERT_TRUE(range.begin_us <= seconds * 1'000'000 && seconds * 1'000'000 < range.end_us);
  }
}

}  // namespace
}  // namespace inferscale
