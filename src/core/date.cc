#include "core/date.h"

#include <array>

namespace inferscale {

namespace {

bool IsLeapYear(int year) { return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0); }

int DaysInMonth(int year, int month) {
  static constexpr std::array<int, 12> kDays = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month == 2 && IsLeapYear(year) ? 29 : kDays[static_cast<size_t>(month - 1)];
}

// The digits text[at, at + count), or -1.
int Digits(std::string_view text, size_t at, size_t count) {
  int value = 0;
  for (size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

std::string Padded(int value, size_t width) {
  std::string digits = std::to_string(value);
  return digits.size() < width ? std::string(width - digits.size(), '0') + digits : digits;
}

// What stands in an error message: input may be megabytes long, or not text at all.
std::string Quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text.substr(0, 32)) quoted += c >= 0x20 && c < 0x7F ? c : '?';
  return quoted + (text.size() > 32 ? "…\"" : "\"");
}

}  // namespace

std::string Date::Iso() const { return Padded(year, 4) + "-" + Padded(month, 2) + "-" + Padded(day, 2); }

std::string Date::Long() const {
  static constexpr std::array<std::string_view, 12> kMonths = {"January",   "February", "March",    "April",
                                                               "May",       "June",     "July",     "August",
                                                               "September", "October",  "November", "December"};
  return std::to_string(day) + " " + std::string(kMonths[static_cast<size_t>(month - 1)]) + " " + std::to_string(year);
}

Result<Date> ParseDate(std::string_view text) {
  const bool is_shaped = text.size() == 10 && text[4] == '-' && text[7] == '-';
  const Date date = is_shaped ? Date{Digits(text, 0, 4), Digits(text, 5, 2), Digits(text, 8, 2)} : Date{-1, -1, -1};
  if (date.year < 0 || date.month < 0 || date.day < 0)
    return Fail(ErrorCode::kInvalidDate, Quoted(text) + " is not a date: write it as YYYY-MM-DD, like 2023-05-08");
  if (date.year < 1 || date.month < 1 || date.month > 12 || date.day < 1 ||
      date.day > DaysInMonth(date.year, date.month))
    return Fail(ErrorCode::kInvalidDate, Quoted(text) + " is not a day of the calendar: check year, month and day");
  return date;
}

}  // namespace inferscale
