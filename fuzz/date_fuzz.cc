// ParseDate takes exactly what it writes: every accepted text is its own ISO form, and is a day that exists.
#include <cstdint>
#include <cstdlib>

#include "core/date.h"

namespace {

int DaysIn(int year, int month) {
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  return kDays[month - 1] + (month == 2 && leap ? 1 : 0);
}

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  auto date = inferscale::ParseDate(text);
  if (!date) return 0;
  Check(date->Iso() == text);
  Check(date->year >= 1 && date->year <= 9999 && date->month >= 1 && date->month <= 12);
  Check(date->day >= 1 && date->day <= DaysIn(date->year, date->month));
  Check(!date->Long().empty());
  return 0;
}
