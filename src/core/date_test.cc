#include "core/date.h"

#include <gtest/gtest.h>

namespace inferscale {
namespace {

TEST(DateTest, ParsesAndPrints) {
  const auto date = ParseDate("2023-05-08");
  ASSERT_TRUE(date.has_value());
  EXPECT_EQ(*date, (Date{2023, 5, 8}));
  EXPECT_EQ(date->Iso(), "2023-05-08");
  EXPECT_EQ(date->Long(), "8 May 2023");
  EXPECT_EQ((Date{1, 12, 31}).Iso(), "0001-12-31");
  EXPECT_EQ((Date{1, 12, 31}).Long(), "31 December 1");
  EXPECT_LT((Date{2022, 12, 31}), (Date{2023, 1, 1}));
}

// The oracle counts days one by one from a known year's rules, written differently from the code's.
TEST(DateTest, AcceptsExactlyTheDaysOfTheCalendar) {
  for (const int year : {1, 4, 100, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9999}) {
    int days = 0;
    for (int month = 0; month <= 13; ++month)
      for (int day = 0; day <= 32; ++day) {
        char text[64];
        snprintf(text, sizeof text, "%04d-%02d-%02d", year, month, day);
        const auto parsed = ParseDate(text);
        if (!parsed) continue;
        ++days;
        EXPECT_EQ(parsed->Iso(), text);
      }
    const bool leap = year == 4 || year == 400 || year == 2000 || year == 2024;
    EXPECT_EQ(days, leap ? 366 : 365) << year;
  }
}

TEST(DateTest, RefusesEverythingElse) {
  for (const char* text :
       {"",           "2023",       "2023-5-8",   "2023-05-8",  " 2023-05-08", "2023-05-08 ", "2023-05-08T10:00",
        "2023/05/08", "08-05-2023", "20230508",   "2023-02-29", "2023-04-31",  "2023-13-01",  "2023-00-10",
        "2023-01-00", "0000-01-01", "+023-01-01", "2023--1-01", "2O23-01-01",  "8 May 2023",  "２０２３-05-08"}) {
    const auto parsed = ParseDate(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidDate) << text;
  }
  EXPECT_NE(ParseDate("8 May 2023").error().message.find("YYYY-MM-DD"), std::string::npos);
  EXPECT_NE(ParseDate("2023-02-29").error().message.find("\"2023-02-29\" is not a day"), std::string::npos);
}

TEST(DateTest, ErrorsStayShortAndPrintable) {
  const auto parsed = ParseDate(std::string(1'000'000, '\x01'));
  ASSERT_FALSE(parsed.has_value());
  EXPECT_LT(parsed.error().message.size(), 200u);
  EXPECT_EQ(parsed.error().message.find('\x01'), std::string::npos);
}

}  // namespace
}  // namespace inferscale
