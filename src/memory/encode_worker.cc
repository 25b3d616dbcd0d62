#include "memory/encode_worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/clock.h"

namespace inferscale {

namespace {

constexpr double kIdleMs = 1000;         // between looks at the queue
constexpr double kExpiryMs = 60'000;     // between collections of expired facts
constexpr size_t kFirstPassTokens = 64;  // before a rate is known: 2 facts

}  // namespace

EncodeWorker::EncodeWorker(Memory& memory, FactEncoder& encoder, const EncodeWorkerOptions& options)
    : memory_(memory), encoder_(encoder), options_(options), thread_([this] { Work(); }) {}

EncodeWorker::~EncodeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EncodeWorker::AnswerEnds() {
  --answers_;
  changed_.notify_all();
}

void EncodeWorker::Wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

// While answers are made, a pass of t ms is followed by t (1 - share) / share ms of rest.
bool EncodeWorker::GoOn() {
  std::unique_lock lock(mutex_);
  if (pass_began_ms_ >= 0) {
    const double now = static_cast<double>(NowMicros()) / 1000.0;
    const double rest = (now - pass_began_ms_) * (1 - options_.share) / options_.share;
    changed_.wait_for(lock, std::chrono::duration<double, std::milli>(rest),
                      [&] { return stop_ || answers_.load() == 0; });
  }
  pass_began_ms_ = static_cast<double>(NowMicros()) / 1000.0;
  return !stop_;
}

void EncodeWorker::Work() {
  double last_expiry_ms = 0;
  for (;;) {
    const double now = static_cast<double>(NowMicros()) / 1000.0;
    if (now - last_expiry_ms > kExpiryMs) {
      last_expiry_ms = now;
      if (const auto expired = memory_.ForgetExpired(); !expired)
        spdlog::warn("expired facts could not be collected: {}", expired.error().message);
    }
    EncodeControl control;
    control.go_on = [this] { return GoOn(); };
    control.pass_tokens = tokens_per_ms_ > 0
                              ? static_cast<size_t>(std::max(1.0, options_.latency_budget_ms * tokens_per_ms_))
                              : kFirstPassTokens;
    pass_began_ms_ = -1;
    const auto stats = encoder_.RunAll(EncodeWhat::kDue, control);
    if (!stats) {
      spdlog::warn("facts could not be encoded: {}", stats.error().message);
    } else if (stats->encoded > 0) {
      encoded_ += stats->encoded;
      tokens_per_ms_ = static_cast<double>(stats->computed_tokens) / (stats->seconds * 1000.0);
    }
    std::unique_lock lock(mutex_);
    if (stop_) return;
    if (stats && stats->encoded > 0) continue;  // perhaps there is more
    changed_.wait_for(lock, std::chrono::duration<double, std::milli>(kIdleMs), [&] { return stop_ || woken_; });
    woken_ = false;
    if (stop_) return;
  }
}

}  // namespace inferscale
