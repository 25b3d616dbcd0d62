// The embedded engine: llama.cpp in this process, one context on one thread, requests in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/engine.h"
#include "engine/llama/llama_model_file.h"
#include "engine/llama/llama_session.h"

namespace inferscale {

struct LlamaEngineOptions {
  std::filesystem::path model_path;
  int threads = 0;                     // 0: all cores of this machine
  uint32_t context_tokens = 0;         // 0: limits::kContextTokensDefault; never more than the model was trained for
  bool text_only = false;              // do not probe or test: every fact is text
  std::filesystem::path cache_folder;  // where the self-test's result is kept; empty: run it every time
  // A self-test runs, which takes seconds: called at its beginning and after each of its steps. May be null.
  std::function<void(size_t done, size_t total)> on_self_test;
};

class LlamaEngine final : public Engine {
 public:
  // Loads, probes and self-tests. A model that cannot be injected into is not an error: info().can_inject says so.
  static Result<std::unique_ptr<LlamaEngine>> Load(const LlamaEngineOptions& options);
  ~LlamaEngine() override;

  const EngineInfo& info() const override { return info_; }
  const Tokenizer& tokenizer() const override { return *tokenizer_; }
  const ChatTemplate* chat_template() const override { return template_.get(); }
  Result<std::unique_ptr<GenerateStream>> Submit(GenerateRequest request) override;
  std::future<Result<CaptureResult>> Capture(CaptureRequest request) override;
  std::future<Status> Wipe() override;

 private:
  class Stream;
  struct StreamState;

  explicit LlamaEngine(LlamaModelFile file);
  Status Start(const LlamaEngineOptions& options);
  Status ProbeAndTest(const LlamaEngineOptions& options);
  Status CheckRequest(const GenerateRequest& request) const;
  Status CheckCapture(const CaptureRequest& request) const;

  // On the engine's thread.
  void Work();
  struct Ending {
    FinishReason reason = FinishReason::kError;
    Status status;
  };
  Ending Generate(const GenerateRequest& request, StreamState& stream);
  Status FillPrompt(const GenerateRequest& request, StreamState& stream);
  Result<CaptureResult> RunCapture(const CaptureRequest& request);
  Status RunWipe();

  // What the sequence holds of a conversation, so that its next turn goes on behind it.
  struct Held {
    Hash128 conversation;  // zero: nothing
    Tokens tokens;         // [cells]
    std::vector<RecordId> records;
    std::vector<uint8_t> saved;  // the cells, while something else uses the sequence; empty: they are in place
  };
  // Brings `held` into place up to where it agrees with the request; returns how many tokens that are, or 0.
  uint32_t Continue(const GenerateRequest& request, Held held);
  Status Enqueue(std::function<void()> job);

  // Constant after Load.
  LlamaModelFile file_;
  EngineInfo info_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::unique_ptr<ChatTemplate> template_;

  std::unique_ptr<LlamaSession> session_;  // used by thread_ only, after Load
  Held held_;                              // likewise

  std::mutex mutex_;
  std::condition_variable wake_;
  // Guarded by mutex_.
  std::deque<std::function<void()>> queue_;
  bool stop_ = false;

  std::thread thread_;
};

}  // namespace inferscale
