// Calendar dates of facts.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// A day of the proleptic Gregorian calendar, years 1 to 9999.
struct Date {
  int year = 1;
  int month = 1;  // 1..12
  int day = 1;    // 1..31
  auto operator<=>(const Date&) const = default;

  std::string Iso() const;   // "2023-05-08"
  std::string Long() const;  // "8 May 2023": the form facts carry in prompts
};

// Exactly YYYY-MM-DD, and a day that exists. kInvalidDate says what is expected.
Result<Date> ParseDate(std::string_view text);

}  // namespace inferscale
