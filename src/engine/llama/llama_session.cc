#include "engine/llama/llama_session.h"

#include <algorithm>

#include "base/assert.h"
#include "base/clock.h"
#include "base/limits.h"

namespace inferscale {

namespace {

constexpr int32_t kBatchTokens = 2048;
constexpr int32_t kMicroBatchTokens = 512;  // llama.cpp's default; larger ones were not faster on CPUs
// Tokens decoded to learn a model's structure: a few, so that start-up stays quick, and all different in position.
constexpr uint32_t kProbeTokens = 8;
// Touched before the first request: enough for 50 facts on a small model (31 MB), so that none pays page faults.
constexpr size_t kTouchedBytes = 64u << 20;

Hash128 TokensKey(std::span<const TokenId> tokens) { return Hasher().Ids(tokens).Finish(); }

}  // namespace

std::shared_ptr<const StateCells> PrefixCells::Find(std::span<const TokenId> tokens) {
  const auto found = by_tokens_.find(TokensKey(tokens));
  if (found == by_tokens_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->cells;
}

void PrefixCells::Keep(std::span<const TokenId> tokens, std::shared_ptr<const StateCells> cells) {
  const Hash128 key = TokensKey(tokens);
  if (cells->bytes.size() > budget_bytes_ || by_tokens_.contains(key)) return;
  bytes_ += cells->bytes.size();
  entries_.push_front({key, std::move(cells)});
  by_tokens_[key] = entries_.begin();
  while (bytes_ > budget_bytes_) {
    bytes_ -= entries_.back().cells->bytes.size();
    by_tokens_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

void PrefixCells::Clear() {
  entries_.clear();
  by_tokens_.clear();
  bytes_ = 0;
}

LlamaSession::LlamaSession(llama_model* model, const Options& options)
    : model_(model),
      context_tokens_(options.context_tokens),
      pool_(options.threads),
      batch_(kBatchTokens),
      prefix_cells_(options.prefix_cells_bytes) {}

Result<std::unique_ptr<LlamaSession>> LlamaSession::Make(llama_model* model, const Options& options) {
  std::unique_ptr<LlamaSession> session(new LlamaSession(model, options));  // private constructor
  llama_context_params params = llama_context_default_params();
  params.n_ctx = options.context_tokens;
  params.n_batch = kBatchTokens;
  params.n_ubatch = kMicroBatchTokens;
  params.n_seq_max = 1;
  params.n_threads = params.n_threads_batch = options.threads;
  params.kv_unified = true;
  params.swa_full = true;  // windowed layers keep every cell, so that positions behind the window can be cleared
  params.type_k = params.type_v = GGML_TYPE_F16;
  params.flash_attn_type = options.flash_attention ? LLAMA_FLASH_ATTN_TYPE_ENABLED : LLAMA_FLASH_ATTN_TYPE_DISABLED;
  params.cb_eval = &KvCapture::Callback;
  params.cb_eval_user_data = &session->capture_;
  params.abort_callback = [](void* self) {
    const auto* cancelled = static_cast<LlamaSession*>(self)->cancelled_;
    return cancelled != nullptr && cancelled->load(std::memory_order_relaxed);
  };
  params.abort_callback_data = session.get();
  try {
    session->context_.reset(llama_init_from_model(model, params));
  } catch (const std::exception&) {
    session->context_.reset();
  }
  if (!session->context_)
    return Fail(ErrorCode::kEngine, "llama.cpp cannot make a context of " + std::to_string(options.context_tokens) +
                                        " tokens: probably too little memory; try a smaller --context");
  return session;
}

void LlamaSession::Clear() { llama_memory_clear(llama_get_memory(context_.get()), false); }

Status LlamaSession::Truncate(uint32_t position) {
  if (!llama_memory_seq_rm(llama_get_memory(context_.get()), 0, static_cast<llama_pos>(position), -1))
    return Fail(ErrorCode::kEngine, "llama.cpp cannot take tokens off this model's cache");
  return {};
}

Result<std::vector<uint8_t>> LlamaSession::Save() const {
  std::vector<uint8_t> bytes(llama_state_seq_get_size(context_.get(), 0));
  if (llama_state_seq_get_data(context_.get(), bytes.data(), bytes.size(), 0) != bytes.size())
    return Fail(ErrorCode::kEngine, "llama.cpp did not give its sequence state");
  return bytes;
}

Status LlamaSession::Restore(std::span<const uint8_t> saved) {
  Clear();
  if (llama_state_seq_set_data(context_.get(), saved.data(), saved.size(), 0) != saved.size())
    return Fail(ErrorCode::kEngine, "llama.cpp refused a sequence state of its own");
  return {};
}

Status LlamaSession::Wipe() {
  prefix_cells_.Clear();
  if (buffer_) buffer_->Wipe();
  batch_.Wipe();
  // One micro-batch of the first token: it replaces the activations and token ids of the last pass.
  const uint32_t count = std::min(context_tokens_, static_cast<uint32_t>(kMicroBatchTokens));
  Clear();
  TRY(Decode(Tokens(count, 0), 0, true));
  llama_memory_clear(llama_get_memory(context_.get()), true);
  return {};
}

Status LlamaSession::Decode(std::span<const TokenId> tokens, uint32_t position, bool logits,
                            const std::atomic<bool>* cancelled) {
  INFERSCALE_ASSERT(!tokens.empty());
  if (position + tokens.size() > context_tokens_)
    return Fail(ErrorCode::kPromptTooLong, std::to_string(position + tokens.size()) +
                                               " tokens do not fit a context of " + std::to_string(context_tokens_));
  cancelled_ = cancelled;
  int32_t failed = 0;
  for (size_t at = 0; at < tokens.size() && failed == 0; at += kBatchTokens) {
    const size_t end = std::min(tokens.size(), at + kBatchTokens);
    batch_.Clear();
    for (size_t i = at; i < end; ++i)
      batch_.Add(tokens[i], static_cast<llama_pos>(position + i), logits && i + 1 == tokens.size());
    failed = llama_decode(context_.get(), batch_.get());
  }
  llama_synchronize(context_.get());
  cancelled_ = nullptr;
  if (failed == 2 || (cancelled != nullptr && cancelled->load())) return Fail(ErrorCode::kCancelled, "cancelled");
  if (failed != 0)
    return Fail(ErrorCode::kEngine, "llama.cpp could not compute the prompt (code " + std::to_string(failed) + ")");
  return {};
}

std::span<const float> LlamaSession::Logits() const {
  const float* logits = llama_get_logits_ith(context_.get(), -1);
  INFERSCALE_ASSERT(logits != nullptr);
  return {logits, static_cast<size_t>(llama_vocab_n_tokens(llama_model_get_vocab(model_)))};
}

TokenId LlamaSession::Argmax() const {
  const std::span<const float> logits = Logits();
  return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

Status LlamaSession::Probe() {
  if (context_tokens_ < kProbeTokens)
    return Fail(ErrorCode::kPromptTooLong,
                "a context of " + std::to_string(context_tokens_) + " tokens is too small to inject anything");
  const TokenId vocabulary = llama_vocab_n_tokens(llama_model_get_vocab(model_));
  Tokens tokens(kProbeTokens);
  for (uint32_t i = 0; i < kProbeTokens; ++i) tokens[i] = static_cast<TokenId>((i * 7919 + 11) % vocabulary);
  Clear();
  capture_.StartProbe();
  const Status decoded = Decode(tokens, 0, false);
  TRY_ASSIGN(probe_, capture_.FinishProbe());
  TRY(decoded);

  const uint32_t pieces[] = {kProbeTokens};
  Clear();
  TRY_ASSIGN(const std::vector<KvPayload> payloads, DecodeAndCapture(tokens, 0, 0, pieces));
  TRY_ASSIGN(std::vector<uint8_t> saved, Save());
  TRY_ASSIGN(const StateCells cells, ParseState(std::move(saved), probe_.shape));
  rope_ = RopeTable(probe_.rope, context_tokens_);
  const int32_t window = llama_model_n_swa(model_);
  TRY_ASSIGN(StateLayout layout, ProbeLayout(cells, payloads[0], rope_, probe_.rope, window > 0 ? window : 0));
  Clear();
  buffer_ = std::make_unique<StateBuffer>(StateBytesMax(layout, context_tokens_), kTouchedBytes);
  layout_ = std::move(layout);
  return {};
}

Result<std::shared_ptr<const StateCells>> LlamaSession::CellsOf(std::span<const TokenId> tokens, bool keep,
                                                                uint32_t* computed) {
  *computed = 0;
  if (auto cells = prefix_cells_.Find(tokens)) return cells;
  Clear();
  TRY(Decode(tokens, 0, false));
  *computed = static_cast<uint32_t>(tokens.size());
  TRY_ASSIGN(std::vector<uint8_t> saved, Save());
  TRY_ASSIGN(StateCells parsed, ParseState(std::move(saved), probe_.shape));
  auto cells = std::make_shared<const StateCells>(std::move(parsed));
  if (keep) prefix_cells_.Keep(tokens, cells);
  return cells;
}

Result<InjectTimes> LlamaSession::Inject(const StateCells* prefix, std::span<const PlacedRecord> records, uint32_t end,
                                         bool rotate) {
  INFERSCALE_ASSERT(probed());
  if (end > context_tokens_)
    return Fail(ErrorCode::kPromptTooLong,
                std::to_string(end) + " tokens do not fit a context of " + std::to_string(context_tokens_));
  Stopwatch watch;
  InjectTimes times;
  TRY_ASSIGN(const size_t size,
             ForgeState(layout_, probe_.rope, rotate ? &rope_ : nullptr, prefix, records, end, *buffer_, pool_));
  times.compose_ms = watch.Lap();
  Clear();
  if (llama_state_seq_set_data(context_.get(), buffer_->data(), size, 0) != size)
    return Fail(ErrorCode::kEngine, "llama.cpp refused the composed KV state");
  times.inject_ms = watch.Lap();
  return times;
}

Result<std::vector<KvPayload>> LlamaSession::DecodeAndCapture(std::span<const TokenId> tokens, uint32_t position,
                                                              uint32_t skip, std::span<const uint32_t> pieces) {
  std::vector<KvPayload> payloads;
  payloads.reserve(pieces.size());
  std::vector<CaptureSink> sinks;
  uint32_t begin = skip;
  for (const uint32_t piece : pieces) {
    payloads.emplace_back(probe_.shape, piece);
    sinks.push_back({begin, &payloads.back()});
    begin += piece;
  }
  INFERSCALE_ASSERT(begin <= tokens.size());
  capture_.StartCapture(probe_, std::move(sinks));
  const Status decoded = Decode(tokens, position, false);
  const Status captured = capture_.FinishCapture();
  TRY(decoded);
  TRY(captured);
  return payloads;
}

}  // namespace inferscale
