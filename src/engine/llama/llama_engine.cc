#include "engine/llama/llama_engine.h"

#include <ggml-backend.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>

#include "base/assert.h"
#include "base/clock.h"
#include "base/limits.h"
#include "engine/llama/jinja_template.h"
#include "engine/llama/llama_tokenizer.h"
#include "engine/llama/selftest.h"

namespace inferscale {

namespace {

// Part of the self-test's identity: raise it whenever capture, rotation or forging change what they compute, or the
// test its texts, its trials or its verdict.
constexpr uint32_t kSelfTestVersion = 3;

int DefaultThreads() { return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, limits::kThreads); }

Tokens Concat(std::span<const Tokens> pieces) {
  Tokens all;
  for (const Tokens& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
  return all;
}

std::vector<RecordId> IdsOf(const std::vector<RecordHandle>& records) {
  std::vector<RecordId> ids;
  for (const RecordHandle& record : records) ids.push_back(record->key.Id());
  return ids;
}

}  // namespace

// Shared by a stream and the engine's thread.
struct LlamaEngine::StreamState {
  std::atomic<bool> cancelled{false};
  Stopwatch submitted;

  std::mutex mutex;
  std::condition_variable changed;
  // Guarded by mutex.
  std::deque<TokenId> tokens;
  bool done = false;
  Status status;
  GenerateTimes times;
  FinishReason finish = FinishReason::kError;

  void Push(TokenId token) {
    {
      std::lock_guard lock(mutex);
      tokens.push_back(token);
    }
    changed.notify_one();
  }
  void Finish(FinishReason reason, Status result) {
    {
      std::lock_guard lock(mutex);
      finish = reason;
      status = std::move(result);
      times.total_ms = submitted.Millis();
      done = true;
    }
    changed.notify_one();
  }
};

class LlamaEngine::Stream final : public GenerateStream {
 public:
  explicit Stream(std::shared_ptr<StreamState> state) : state_(std::move(state)) {}
  ~Stream() override {
    Cancel();
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done; });
  }
  Result<std::optional<TokenId>> Next() override {
    std::unique_lock lock(state_->mutex);
    state_->changed.wait(lock, [&] { return state_->done || (!state_->tokens.empty() && !state_->cancelled); });
    if (state_->cancelled) return EndCancelled();
    if (!state_->tokens.empty()) {
      const TokenId token = state_->tokens.front();
      state_->tokens.pop_front();
      return token;
    }
    if (!state_->status) return tl::unexpected<Error>(state_->status.error());
    return std::nullopt;
  }
  void Cancel() override {
    {
      std::lock_guard lock(state_->mutex);  // not between a reader's look at it and its wait
      state_->cancelled.store(true);
    }
    state_->changed.notify_one();
  }
  GenerateTimes times() const override {
    std::lock_guard lock(state_->mutex);
    return state_->times;
  }
  FinishReason finish_reason() const override {
    std::lock_guard lock(state_->mutex);
    return state_->finish;
  }

 private:
  // The engine is done, perhaps with more than was read: an answer cancelled ends where its reader was.
  Result<std::optional<TokenId>> EndCancelled() {
    state_->tokens.clear();
    if (!state_->status) return tl::unexpected<Error>(state_->status.error());
    state_->finish = FinishReason::kCancelled;
    return std::nullopt;
  }

  std::shared_ptr<StreamState> state_;
};

LlamaEngine::LlamaEngine(LlamaModelFile file) : file_(std::move(file)) {}

Result<std::unique_ptr<LlamaEngine>> LlamaEngine::Load(const LlamaEngineOptions& options) {
  TRY_ASSIGN(LlamaModelFile file, LoadModelFile(options.model_path));
  std::unique_ptr<LlamaEngine> engine(new LlamaEngine(std::move(file)));  // private constructor
  TRY(engine->Start(options));
  return engine;
}

Status LlamaEngine::Start(const LlamaEngineOptions& options) {
  if (options.threads < 0 || options.threads > limits::kThreads)
    return Fail(ErrorCode::kInvalidArgument, "threads must be 0 to " + std::to_string(limits::kThreads));
  const llama_model* model = file_.model.get();
  TRY_ASSIGN(std::unique_ptr<LlamaTokenizer> tokenizer, LlamaTokenizer::Make(model));
  info_.engine = "llama";
  info_.model_path = file_.path;
  info_.model_name = file_.name;
  info_.architecture = file_.architecture;
  const uint32_t wanted = options.context_tokens != 0 ? options.context_tokens : limits::kContextTokensDefault;
  info_.context_tokens = std::min(wanted, static_cast<uint32_t>(llama_model_n_ctx_train(model)));
  if (!file_.chat_template.empty()) {
    auto parsed = JinjaTemplate::Make(file_.chat_template, tokenizer->bos_spelling(), tokenizer->eos_spelling());
    if (parsed)
      template_ = std::move(*parsed);
    else
      spdlog::warn("{}: its chat template is not usable ({}); using the plain one", file_.path, parsed.error().message);
  }
  tokenizer_ = std::move(tokenizer);
  info_.threads = options.threads > 0 ? options.threads : DefaultThreads();
  ggml_backend_dev_t gpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_GPU);
  info_.device = gpu == nullptr ? "CPU" : ggml_backend_dev_description(gpu);
  const bool on_gpu = gpu != nullptr;  // all layers are: llama.cpp's default
  // Flash attention slows attention over an injected prefix on CPUs, 4 to 8 times.
  TRY_ASSIGN(session_, LlamaSession::Make(file_.model.get(), {.context_tokens = info_.context_tokens,
                                                              .threads = info_.threads,
                                                              .flash_attention = on_gpu,
                                                              .prefix_cells_bytes = limits::kPrefixCellsBytes}));
  Hasher key;
  key.Digest(file_.fingerprint).Str(info_.architecture);
  if (options.text_only) {
    info_.text_mode_reason = "text mode was asked for";
  } else if (!IsInjectableArchitecture(info_.architecture)) {
    info_.text_mode_reason =
        "architecture \"" + info_.architecture + "\" is not one of those we inject into (llama, qwen2, qwen3, gemma3)";
  } else if (const Status ready = ProbeAndTest(options); !ready) {
    info_.text_mode_reason = ready.error().message;
  }
  info_.can_inject = info_.text_mode_reason.empty();
  if (session_->probed()) {
    const KvShape& shape = info_.kv_shape;
    key.U32(shape.layers).U32(shape.kv_heads).U32(shape.key_dim).U32(shape.value_dim);
    info_.rope.AddTo(key);
  }
  info_.model_key = key.Finish();
  thread_ = std::thread([this] { Work(); });
  return {};
}

Status LlamaEngine::ProbeAndTest(const LlamaEngineOptions& options) {
  TRY(session_->Probe());
  info_.kv_shape = session_->probe().shape;
  info_.rope = session_->probe().rope;
  const Hash128 identity = Hasher()
                               .U32(kSelfTestVersion)
                               .Digest(file_.fingerprint)
                               .Str(llama_version())
                               .Str(ggml_commit())
                               .Str(llama_print_system_info())  // the instructions that llama.cpp was compiled for
                               .Str(info_.device)
                               .U32(static_cast<uint32_t>(info_.threads))  // decides how sums are split
                               .U32(info_.context_tokens)
                               .Finish();
  std::optional<SelfTestReport> kept;
  if (!options.cache_folder.empty()) kept = LoadSelfTest(options.cache_folder, identity);
  if (kept) {
    info_.self_test = *kept;
  } else {
    TRY_ASSIGN(info_.self_test, RunSelfTest(*session_, *tokenizer_, options.on_self_test));
    if (!options.cache_folder.empty()) SaveSelfTest(options.cache_folder, identity, info_.self_test);
  }
  if (!info_.self_test.passed)
    return Fail(ErrorCode::kModelUnsupported, "the self-test failed: " + info_.self_test.detail);
  return {};
}

LlamaEngine::~LlamaEngine() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void LlamaEngine::Work() {
  for (;;) {
    std::function<void()> job;
    {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;  // stopping: what was accepted is finished first
      job = std::move(queue_.front());
      queue_.pop_front();
    }
    job();
  }
}

Status LlamaEngine::Enqueue(std::function<void()> job) {
  {
    std::lock_guard lock(mutex_);
    if (queue_.size() >= limits::kEngineQueue)
      return Fail(ErrorCode::kEngine,
                  "the engine's queue is full (" + std::to_string(queue_.size()) + " requests): try again later");
    queue_.push_back(std::move(job));
  }
  wake_.notify_one();
  return {};
}

Status LlamaEngine::CheckRequest(const GenerateRequest& request) const {
  const PromptPlan& plan = request.plan;
  TRY(CheckPlan(plan));
  if (request.max_tokens == 0) return Fail(ErrorCode::kInvalidArgument, "max_tokens must be at least 1");
  if (plan.prompt_tokens.size() + request.max_tokens > info_.context_tokens)
    return Fail(ErrorCode::kPromptTooLong,
                std::to_string(plan.prompt_tokens.size()) + " prompt tokens and " + std::to_string(request.max_tokens) +
                    " for the answer do not fit the context of " + std::to_string(info_.context_tokens));
  for (const TokenId token : plan.prompt_tokens)
    if (token < 0 || token >= tokenizer_->vocabulary_size())
      return Fail(ErrorCode::kInvalidArgument, "the plan holds a token id outside the vocabulary");
  if (plan.spans.empty()) return {};
  if (!info_.can_inject)
    return Fail(ErrorCode::kModelUnsupported, "this engine runs in text mode: " + info_.text_mode_reason);
  if (plan.model_key != info_.model_key) return Fail(ErrorCode::kMismatch, "the plan was made for another model");
  size_t next = 0, at = 0;
  for (const PlanSpan& span : plan.spans) {
    if (span.kind == SpanKind::kRecord) {
      if (next == request.records.size())
        return Fail(ErrorCode::kInvalidArgument, "the plan has more spans than records");
      const KvRecord& record = *request.records[next++];
      if (record.payload.shape() != info_.kv_shape || record.key.model_key != info_.model_key)
        return Fail(ErrorCode::kMismatch, "a record was made for another model");
      if (record.tokens() != span.n_tokens ||
          !std::equal(record.key.token_ids.begin(), record.key.token_ids.end(), plan.prompt_tokens.begin() + at))
        return Fail(ErrorCode::kMismatch, "a record holds other tokens than its place in the prompt");
    }
    at += span.n_tokens;
  }
  if (next != request.records.size()) return Fail(ErrorCode::kInvalidArgument, "the plan has fewer spans than records");
  return {};
}

Result<std::unique_ptr<GenerateStream>> LlamaEngine::Submit(GenerateRequest request) {
  TRY(CheckRequest(request));
  auto state = std::make_shared<StreamState>();
  auto shared = std::make_shared<GenerateRequest>(std::move(request));
  TRY(Enqueue([this, state, shared]() mutable {
    Ending ending = Generate(*shared, *state);
    shared.reset();  // the records are let go before the stream can see the end
    state->Finish(ending.reason, std::move(ending.status));
  }));
  return std::make_unique<Stream>(std::move(state));
}

// Brings the sequence to just before the first answer token, its logits ready.
Status LlamaEngine::FillPrompt(const GenerateRequest& request, StreamState& stream) {
  const PromptPlan& plan = request.plan;
  const std::span<const TokenId> prompt(plan.prompt_tokens);
  const uint32_t injected = plan.InjectedTokens();
  GenerateTimes times;
  times.reused_tokens = Continue(request, std::exchange(held_, {}));
  if (times.reused_tokens > 0) {
    // The rest is computed below.
  } else if (request.prefill_region_first && injected > 0) {
    session_->Clear();
    TRY(session_->Decode(prompt.first(injected), 0, false, &stream.cancelled));
    stream.submitted = Stopwatch();
  } else if (injected > 0) {
    std::shared_ptr<const StateCells> prefix;
    if (const uint32_t n = plan.PrefixTokens(); n > 0) {
      const Stopwatch first_use;
      uint32_t computed;
      TRY_ASSIGN(prefix, session_->CellsOf(prompt.first(n), true, &computed));
      times.prefill_ms = first_use.Millis();
    }
    std::vector<PlacedRecord> placed;
    uint32_t position = plan.PrefixTokens();
    for (const RecordHandle& record : request.records) {
      placed.push_back({&record->payload, position});
      position += record->tokens();
    }
    TRY_ASSIGN(const InjectTimes inject, session_->Inject(prefix.get(), placed, injected));
    times.compose_ms = inject.compose_ms;
    times.inject_ms = inject.inject_ms;
  } else {
    session_->Clear();
  }
  Stopwatch prefill;
  const uint32_t there = std::max(injected, times.reused_tokens);
  TRY(session_->Decode(prompt.subspan(there), there, true, &stream.cancelled));
  times.prefill_ms += prefill.Millis();
  std::lock_guard lock(stream.mutex);
  stream.times = times;
  return {};
}

uint32_t LlamaEngine::Continue(const GenerateRequest& request, Held held) {
  if (request.conversation == Hash128{} || held.conversation != request.conversation) return 0;
  const Tokens& prompt = request.plan.prompt_tokens;
  if (held.records != IdsOf(request.records)) return 0;
  const auto differ = std::mismatch(prompt.begin(), prompt.end(), held.tokens.begin(), held.tokens.end());
  // The last token is computed anew: its logits are what the answer begins with.
  const auto same = std::min(static_cast<size_t>(differ.first - prompt.begin()), prompt.size() - 1);
  if (same == 0 || same < request.plan.InjectedTokens()) return 0;
  if (!held.saved.empty() && !session_->Restore(held.saved)) return 0;
  if (!session_->Truncate(static_cast<uint32_t>(same))) return 0;
  return static_cast<uint32_t>(same);
}

LlamaEngine::Ending LlamaEngine::Generate(const GenerateRequest& request, StreamState& stream) {
  const auto stop = [&](Status status) -> Ending {
    if (stream.cancelled || (!status && status.error().code == ErrorCode::kCancelled))
      return {FinishReason::kCancelled, {}};
    return {FinishReason::kError, std::move(status)};
  };
  if (stream.cancelled) return stop({});
  if (Status filled = FillPrompt(request, stream); !filled) return stop(std::move(filled));
  Held held{request.conversation, request.plan.prompt_tokens, IdsOf(request.records), {}};
  const auto finish = [&](FinishReason reason) -> Ending {
    if (held.conversation != Hash128{}) held_ = std::move(held);
    return {reason, {}};
  };
  for (uint32_t made = 0;; ++made) {
    const TokenId token = session_->Argmax();
    if (made == 0) {
      std::lock_guard lock(stream.mutex);
      stream.times.first_token_ms = stream.submitted.Millis();
    }
    if (tokenizer_->IsEndOfGeneration(token)) return finish(FinishReason::kStop);
    stream.Push(token);
    if (made + 1 == request.max_tokens) return finish(FinishReason::kLength);
    // Not inside a token's pass: what was said until here stays usable for the conversation's next turn.
    if (stream.cancelled) return finish(FinishReason::kCancelled);
    const auto position = static_cast<uint32_t>(held.tokens.size());
    if (Status decoded = session_->Decode({&token, 1}, position, true); !decoded) return stop(std::move(decoded));
    held.tokens.push_back(token);
  }
}

Status LlamaEngine::CheckCapture(const CaptureRequest& request) const {
  if (!info_.can_inject)
    return Fail(ErrorCode::kModelUnsupported, "this engine runs in text mode: " + info_.text_mode_reason);
  if (request.stem.empty() || request.fresh.empty())
    return Fail(ErrorCode::kInvalidArgument, "a capture needs a stem and something to encode");
  size_t tokens = request.stem.size();
  for (const RecordHandle& member : request.members) {
    if (member->payload.shape() != info_.kv_shape || member->key.model_key != info_.model_key)
      return Fail(ErrorCode::kMismatch, "a run's member was made for another model");
    tokens += member->tokens();
  }
  for (const Tokens& piece : request.fresh) {
    if (piece.empty() || piece.size() > limits::kRecordTokens)
      return Fail(ErrorCode::kTooLarge, "a record holds 1 to " + std::to_string(limits::kRecordTokens) + " tokens");
    tokens += piece.size();
  }
  if (tokens > info_.context_tokens)
    return Fail(ErrorCode::kPromptTooLong,
                "encoding " + std::to_string(tokens) + " tokens at once does not fit the context of " +
                    std::to_string(info_.context_tokens) + ": choose a smaller --encode-window or a larger --context");
  return {};
}

std::future<Result<CaptureResult>> LlamaEngine::Capture(CaptureRequest request) {
  auto promise = std::make_shared<std::promise<Result<CaptureResult>>>();
  std::future<Result<CaptureResult>> future = promise->get_future();
  Status accepted = CheckCapture(request);
  if (accepted) {
    auto shared = std::make_shared<CaptureRequest>(std::move(request));
    accepted = Enqueue([this, promise, shared]() mutable {
      Result<CaptureResult> result = RunCapture(*shared);
      shared.reset();  // likewise
      promise->set_value(std::move(result));
    });
  }
  if (!accepted) promise->set_value(tl::unexpected<Error>(std::move(accepted).error()));
  return future;
}

std::future<Status> LlamaEngine::Wipe() {
  auto promise = std::make_shared<std::promise<Status>>();
  std::future<Status> future = promise->get_future();
  if (Status accepted = Enqueue([this, promise] { promise->set_value(RunWipe()); }); !accepted)
    promise->set_value(std::move(accepted));
  return future;
}

Status LlamaEngine::RunWipe() {
  held_ = {};
  return session_->Wipe();
}

Result<CaptureResult> LlamaEngine::RunCapture(const CaptureRequest& request) {
  if (held_.conversation != Hash128{} && held_.saved.empty()) {
    if (auto saved = session_->Save())
      held_.saved = std::move(*saved);
    else
      held_ = {};
  }
  CaptureResult result;
  std::vector<uint32_t> pieces;
  for (const Tokens& piece : request.fresh) pieces.push_back(static_cast<uint32_t>(piece.size()));
  const Tokens fresh = Concat(request.fresh);
  const auto stem_tokens = static_cast<uint32_t>(request.stem.size());
  if (request.members.empty() && !request.keep_stem) {  // everything in one pass
    Tokens all = request.stem;
    all.insert(all.end(), fresh.begin(), fresh.end());
    session_->Clear();
    TRY_ASSIGN(result.payloads, session_->DecodeAndCapture(all, 0, stem_tokens, pieces));
    result.computed_tokens = static_cast<uint32_t>(all.size());
    return result;
  }
  TRY_ASSIGN(const auto stem, session_->CellsOf(request.stem, request.keep_stem, &result.computed_tokens));
  std::vector<PlacedRecord> placed;
  uint32_t position = stem_tokens;
  for (const RecordHandle& member : request.members) {
    placed.push_back({&member->payload, position});
    position += member->tokens();
  }
  TRY(session_->Inject(stem.get(), placed, position));
  TRY_ASSIGN(result.payloads, session_->DecodeAndCapture(fresh, position, 0, pieces));
  result.computed_tokens += static_cast<uint32_t>(fresh.size());
  return result;
}

}  // namespace inferscale
