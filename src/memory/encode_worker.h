// Encodes what is due in the background, beside answers: one thread, which an answer never waits for longer than one
// pass.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "memory/fact_encoder.h"
#include "memory/memory.h"

namespace inferscale {

struct EncodeWorkerOptions {
  double share = 0.05;             // of the time while answers are made; all of it when there are none
  double latency_budget_ms = 250;  // how long an answer may wait for a pass that has begun
};

class EncodeWorker {
 public:
  // Both outlive the worker, which starts at once. Nothing else may use the encoder meanwhile.
  EncodeWorker(Memory& memory, FactEncoder& encoder, const EncodeWorkerOptions& options);
  ~EncodeWorker();  // ends after the pass under way

  // An answer is being made from now on, or is done.
  void AnswerBegins() { ++answers_; }
  void AnswerEnds();
  void Wake();  // something was queued

  size_t encoded() const { return encoded_; }

 private:
  void Work();
  // Before a pass: waits until it may begin. False: the worker is to end.
  bool GoOn();

  Memory& memory_;
  FactEncoder& encoder_;
  EncodeWorkerOptions options_;
  std::atomic<int> answers_ = 0;
  std::atomic<size_t> encoded_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;   // guarded
  bool woken_ = false;  // guarded
  // Of the worker's thread.
  double pass_began_ms_ = -1;  // none yet
  double tokens_per_ms_ = 0;
  std::thread thread_;
};

}  // namespace inferscale
