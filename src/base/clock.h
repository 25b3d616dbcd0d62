// Wall time of a piece of work, and the time of day.
#pragma once

#include <chrono>
#include <cstdint>

namespace inferscale {

// Microseconds since 1970-01-01 00:00 UTC.
inline int64_t NowMicros() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

class Stopwatch {
 public:
  Stopwatch() : start_(Clock::now()) {}
  double Millis() const { return std::chrono::duration<double, std::milli>(Clock::now() - start_).count(); }
  // Milliseconds since the start or the last Lap.
  double Lap() {
    const auto now = Clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - start_).count();
    start_ = now;
    return ms;
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start_;
};

}  // namespace inferscale
