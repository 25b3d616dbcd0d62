#include "core/instant.h"

#include <chrono>
#include <optional>
#include <string>

#include "base/assert.h"

namespace inferscale {

namespace {

constexpr int64_t kSecond = 1'000'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHour = 60 * kMinute;
constexpr int64_t kDay = 24 * kHour;

int64_t MidnightOf(const Date& day) {
  const std::chrono::year_month_day ymd(std::chrono::year(day.year),
                                        std::chrono::month(static_cast<unsigned>(day.month)),
                                        std::chrono::day(static_cast<unsigned>(day.day)));
  return std::chrono::sys_days(ymd).time_since_epoch().count() * kDay;
}

// Takes text from its beginning; each function leaves it as it is when it returns nothing.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool AtEnd() const { return text_.empty(); }
  bool Take(std::string_view any_of) {
    if (text_.empty() || any_of.find(text_.front()) == std::string_view::npos) return false;
    text_.remove_prefix(1);
    return true;
  }
  // Two digits, at most `max`.
  std::optional<int> TwoDigits(int max) {
    if (text_.size() < 2 || !IsDigit(text_[0]) || !IsDigit(text_[1])) return std::nullopt;
    const int value = 10 * (text_[0] - '0') + (text_[1] - '0');
    if (value > max) return std::nullopt;
    text_.remove_prefix(2);
    return value;
  }
  // Digits behind a decimal point, in microseconds.
  std::optional<int64_t> Fraction() {
    size_t digits = 0;
    int64_t value = 0, unit = kSecond;
    for (; digits < text_.size() && IsDigit(text_[digits]); ++digits) {
      unit /= 10;
      value += (text_[digits] - '0') * unit;
    }
    if (digits == 0) return std::nullopt;
    text_.remove_prefix(digits);
    return value;
  }

 private:
  static bool IsDigit(char c) { return c >= '0' && c <= '9'; }

  std::string_view text_;
};

// "09:30", "09:30:15", "09:30:15.25": microseconds of the day.
std::optional<int64_t> TakeTimeOfDay(Scanner& text) {
  const auto hours = text.TwoDigits(23);
  if (!hours || !text.Take(":")) return std::nullopt;
  const auto minutes = text.TwoDigits(59);
  if (!minutes) return std::nullopt;
  int64_t time = *hours * kHour + *minutes * kMinute;
  if (!text.Take(":")) return time;
  const auto seconds = text.TwoDigits(59);
  if (!seconds) return std::nullopt;
  time += *seconds * kSecond;
  if (!text.Take(".,")) return time;
  const auto fraction = text.Fraction();
  return fraction ? std::optional(time + *fraction) : std::nullopt;
}

// "", "Z", "+08:00", "-0330", "+08": what local time is ahead of UTC.
std::optional<int64_t> TakeOffset(Scanner& text) {
  if (text.AtEnd() || text.Take("Zz")) return 0;
  const bool is_ahead = text.Take("+");
  if (!is_ahead && !text.Take("-")) return std::nullopt;
  const auto hours = text.TwoDigits(23);
  if (!hours) return std::nullopt;
  int64_t offset = *hours * kHour;
  const bool has_colon = text.Take(":");
  if (has_colon || !text.AtEnd()) {
    const auto minutes = text.TwoDigits(59);
    if (!minutes) return std::nullopt;
    offset += *minutes * kMinute;
  }
  return is_ahead ? offset : -offset;
}

}  // namespace

TimeRange DayRange(const Date& day) {
  const int64_t begin = MidnightOf(day);
  return {begin, begin + kDay};
}

Date DayOf(int64_t instant_us) {
  INFERSCALE_ASSERT(instant_us >= kFirstInstant && instant_us <= kLastInstant);
  const auto days = std::chrono::floor<std::chrono::days>(std::chrono::microseconds(instant_us));
  const std::chrono::year_month_day ymd{std::chrono::sys_days(days)};
  return {static_cast<int>(ymd.year()), static_cast<int>(static_cast<unsigned>(ymd.month())),
          static_cast<int>(static_cast<unsigned>(ymd.day()))};
}

Result<TimeRange> ParseTime(std::string_view text) {
  constexpr size_t kDateBytes = 10;
  TRY_ASSIGN(const Date day, ParseDate(text.substr(0, kDateBytes)));
  if (text.size() <= kDateBytes) return DayRange(day);
  Scanner rest(text.substr(kDateBytes));
  if (rest.Take("Tt ")) {
    const auto time = TakeTimeOfDay(rest);
    const auto offset = time ? TakeOffset(rest) : std::nullopt;
    if (offset && rest.AtEnd()) {
      const int64_t instant = MidnightOf(day) + *time - *offset;
      if (instant >= kFirstInstant && instant <= kLastInstant) return TimeRange{instant, instant + 1};
    }
  }
  return Fail(ErrorCode::kInvalidDate,
              "the text behind " + day.Iso() + " is no time of a day: write it like 2024-03-01T09:30:00+02:00");
}

}  // namespace inferscale
