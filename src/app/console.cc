#include "app/console.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace inferscale {

int ExitStatus(ErrorCode code) {
  if (code == ErrorCode::kCancelled) return 130;
  switch (static_cast<int>(code) / 100) {
    case 1:
      return 2;
    case 2:
      return 3;
    case 3:
      return 4;
    case 4:
      return 5;
    default:
      return 70;
  }
}

void PrintError(const Error& error) { fmt::print(stderr, "inferscale: error: {}\n", error.message); }
void PrintWarning(std::string_view message) { fmt::print(stderr, "inferscale: warning: {}\n", message); }
void PrintOut(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

ProgressBar::ProgressBar(std::string label, std::string unit)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_ - std::chrono::hours(1)) {}

ProgressBar::~ProgressBar() {
  if (drawn_ && terminal_) fmt::print(stderr, "\n");
}

void ProgressBar::Update(size_t done, size_t total) {
  constexpr int kWidth = 30;
  const auto now = std::chrono::steady_clock::now();
  const double since = std::chrono::duration<double>(now - last_).count();
  // A terminal is redrawn ten times a second at most; a log gets a line every five seconds and the last one.
  if (done < total && since < (terminal_ ? 0.1 : 5.0)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const std::string rate =
      done > 0 && seconds > 0.2 ? fmt::format(", {:.1f} {}/s", static_cast<double>(done) / seconds, unit_) : "";
  const std::string left =
      done > 0 && done < total
          ? fmt::format(", {:.0f} s left", seconds * static_cast<double>(total - done) / static_cast<double>(done))
          : "";
  if (terminal_) {
    const int filled = total > 0 ? static_cast<int>(kWidth * done / total) : kWidth;
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}{}{}   ", label_, "", filled, "", kWidth - filled, done, total, rate,
               left);
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{} {}/{}{}{}\n", label_, done, total, rate, left);
  }
}

}  // namespace inferscale
