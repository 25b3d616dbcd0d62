// Wall time of a piece of work.
#pragma once

#include <chrono>

namespace inferscale {

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
