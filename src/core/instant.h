// Points in time as people and programs write them. An instant is microseconds since 1970-01-01 00:00 UTC.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "core/date.h"

namespace inferscale {

// Years 1 to 9999.
inline constexpr int64_t kFirstInstant = -62'135'596'800'000'000;  // 0001-01-01T00:00:00Z
inline constexpr int64_t kLastInstant = 253'402'300'799'999'999;   // 9999-12-31T23:59:59.999999Z

// What was written names every instant of [begin_us, end_us): a day has 24 hours of them, a time one microsecond.
struct TimeRange {
  int64_t begin_us = 0;
  int64_t end_us = 0;

  bool operator==(const TimeRange&) const = default;
};

TimeRange DayRange(const Date& day);  // UTC
Date DayOf(int64_t instant_us);       // UTC; kFirstInstant <= instant_us <= kLastInstant

// ISO 8601: "2024-03-01" (a day, UTC), "2024-03-01T09:30", "2024-03-01 09:30:15.25Z", "2024-03-01T09:30:15+08:00"
// ("+0800" and "+08" too). Without an offset: UTC. More than six digits of a second are dropped. kInvalidDate.
Result<TimeRange> ParseTime(std::string_view text);

}  // namespace inferscale
