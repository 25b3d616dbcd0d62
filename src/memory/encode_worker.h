// Encodes what is due in the background, beside answers, and once a minute collects what expired and, when no answer is
// made, compacts the store: one thread, which an answer never waits for longer than one pass.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>

#include "memory/fact_encoder.h"
#include "memory/memory.h"

namespace inferscale {

struct EncodeWorkerOptions {
  double share = 0.05;  // of the time while answers are made, above 0; all of it when there are none
  // How long an answer may wait for a pass that has begun. A run's stem, where the engine has to compute it, comes on
  // top: it cannot be cut.
  double latency_budget_ms = 250;
  std::function<void()> on_look;  // after each look at the queue, on the worker's thread; may be null
};

class EncodeWorker {
 public:
  // Both outlive the worker, which starts at once. Nothing else may use the encoder meanwhile.
  EncodeWorker(Memory& memory, FactEncoder& encoder, const EncodeWorkerOptions& options);
  ~EncodeWorker();  // ends after the pass under way

  // An answer is being made from now on, or is done.
  void AnswerBegins();
  void AnswerEnds();
  void Wake();  // something was queued

  size_t encoded() const { return encoded_; }

 private:
  void Work();
  // Before a pass: waits until it may begin. False: the worker is to end.
  bool GoOn();
  void EndPass();
  void Upkeep();
  static void Tell(std::string& told, std::string message);

  Memory& memory_;
  FactEncoder& encoder_;
  EncodeWorkerOptions options_;
  std::atomic<size_t> encoded_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded.
  int answers_ = 0;
  bool stop_ = false;
  bool woken_ = false;
  // Of the worker's thread.
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> pass_began_;  // a pass is under way
  Clock::time_point may_begin_;                  // the next one, while answers are made
  std::optional<Clock::time_point> upkeep_at_;
  double busy_ms_ = 0;  // in passes of the present run
  double tokens_per_ms_ = 0;
  std::string told_expired_, told_compacted_, told_encoded_;
  std::thread thread_;
};

}  // namespace inferscale
