#include "memory/encode_worker.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/assert.h"

namespace inferscale {

namespace {

using Millis = std::chrono::duration<double, std::milli>;

constexpr Millis kIdle{1000};               // between looks at the queue
constexpr int kBackoffSteps = 6;            // each failure in a row doubles that rest: to 64 s
constexpr std::chrono::minutes kUpkeep{1};  // between collections of expired facts and compactions
constexpr size_t kFirstPassTokens = 64;     // before a rate is known: 2 facts

}  // namespace

EncodeWorker::EncodeWorker(Memory& memory, FactEncoder& encoder, const EncodeWorkerOptions& options)
    : memory_(memory), encoder_(encoder), options_(options) {
  INFERSCALE_ASSERT(options.share > 0 && options.share <= 1);
  thread_ = std::thread([this] { Work(); });
}

EncodeWorker::~EncodeWorker() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void EncodeWorker::AnswerBegins() {
  const std::lock_guard lock(mutex_);
  ++answers_;
}

void EncodeWorker::AnswerEnds() {
  {
    const std::lock_guard lock(mutex_);
    --answers_;
  }
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
void EncodeWorker::EndPass() {
  if (!pass_began_) return;
  const Clock::time_point now = Clock::now();
  const Millis took = now - *pass_began_;
  pass_began_.reset();
  busy_ms_ += took.count();
  may_begin_ = now + std::chrono::duration_cast<Clock::duration>(took * ((1 - options_.share) / options_.share));
}

bool EncodeWorker::GoOn() {
  EndPass();
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, may_begin_, [&] { return stop_ || answers_ == 0; });
  pass_began_ = Clock::now();
  return !stop_;
}

// Each trouble is told once, until it changes or is over: it is met again at every look.
void EncodeWorker::Tell(std::string& told, std::string message) {
  if (message == told) return;
  if (!message.empty()) spdlog::warn("{}", message);
  told = std::move(message);
}

// What nobody waits for. Compaction needs the disk: not while an answer is made.
void EncodeWorker::Upkeep() {
  const Clock::time_point now = Clock::now();
  if (upkeep_at_ && now - *upkeep_at_ < kUpkeep) return;
  upkeep_at_ = now;
  const auto expired = memory_.ForgetExpired();
  Tell(told_expired_, expired ? "" : "expired facts could not be collected: " + expired.error().message);
  {
    const std::lock_guard lock(mutex_);
    if (answers_ > 0) return;
  }
  const auto compacted = memory_.vault().Compact();
  Tell(told_compacted_, compacted ? "" : "the KV store could not be compacted: " + compacted.error().message);
}

void EncodeWorker::Work() {
  for (int failures = 0;;) {
    Upkeep();
    EncodeControl control;
    control.go_on = [this] { return GoOn(); };
    control.pass_tokens = tokens_per_ms_ > 0
                              ? static_cast<size_t>(std::max(1.0, options_.latency_budget_ms * tokens_per_ms_))
                              : kFirstPassTokens;
    busy_ms_ = 0;
    const auto stats = encoder_.RunAll(EncodeWhat::kDue, control);
    EndPass();
    const bool some = stats && stats->encoded > 0;
    failures = stats ? 0 : std::min(failures + 1, kBackoffSteps + 1);
    Tell(told_encoded_, stats ? "" : "facts could not be encoded: " + stats.error().message);
    if (some) encoded_ += stats->encoded;
    if (some && busy_ms_ > 0) tokens_per_ms_ = static_cast<double>(stats->computed_tokens) / busy_ms_;
    if (options_.on_look) options_.on_look();
    std::unique_lock lock(mutex_);
    if (stop_) return;
    if (some) continue;  // perhaps there is more
    const Millis rest = kIdle * (1 << std::max(failures - 1, 0));
    changed_.wait_for(lock, rest, [&] { return stop_ || woken_; });
    woken_ = false;
    if (stop_) return;
  }
}

}  // namespace inferscale
