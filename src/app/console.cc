#include "app/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

namespace inferscale {

namespace {
int lost_output = 0;  // errno of the first write that failed
}

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
void PrintNote(std::string_view message) { fmt::print(stderr, "inferscale: note: {}\n", message); }
void PrintOut(std::string_view text) {
  const bool written = std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
  if (!written && lost_output == 0) lost_output = errno;
}
void PrintJson(const nlohmann::ordered_json& json) {
  PrintOut(json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

void PrepareStreams() {
  // Opened the wrong way round: using the place holder fails, as using a closed stream should.
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(fd, F_GETFD) == -1) (void)!::open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  auto log = std::make_shared<spdlog::logger>("inferscale", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  log->set_pattern("inferscale: %l: %v");
  spdlog::set_default_logger(std::move(log));
}

int FinishOutput(int status) {
  PrintOut("");  // what others left in the buffer
  if (lost_output == 0) return status;
  PrintError({ErrorCode::kIo, std::string("cannot write to standard output: ") + std::strerror(lost_output)});
  return status != 0 ? status : ExitStatus(ErrorCode::kIo);
}

ProgressBar::ProgressBar(std::string label, std::string unit)
    : label_(std::move(label)), unit_(std::move(unit)), terminal_(::isatty(STDERR_FILENO) != 0) {}

ProgressBar::~ProgressBar() {
  if (drawn_ && terminal_) fmt::print(stderr, "\n");
}

void ProgressBar::Update(size_t done, size_t total, std::chrono::steady_clock::time_point now) {
  constexpr int kWidth = 30;
  if (!drawn_) {
    start_ = now;
    first_ = done;
    last_ = now - std::chrono::hours(1);
  }
  const double since = std::chrono::duration<double>(now - last_).count();
  // A terminal is redrawn ten times a second at most; a log gets a line every five seconds and the last one.
  if (done < total && since < (terminal_ ? 0.1 : 5.0)) return;
  last_ = now;
  drawn_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  std::string rate, left;
  if (done > first_ && seconds > 0.2) {  // less says nothing about the rest
    const double per_second = static_cast<double>(done - first_) / seconds;
    rate = fmt::format(", {:.1f} {}/s", per_second, unit_);
    if (done < total) left = fmt::format(", {:.0f} s left", static_cast<double>(total - done) / per_second);
  }
  if (terminal_) {
    const int filled = total > 0 ? static_cast<int>(kWidth * done / total) : kWidth;
    fmt::print(stderr, "\r{} [{:#<{}}{:.<{}}] {}/{}{}{}   ", label_, "", filled, "", kWidth - filled, done, total, rate,
               left);
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{} {}/{}{}{}\n", label_, done, total, rate, left);
  }
}

std::string Counted(uint64_t count, std::string_view what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace inferscale
