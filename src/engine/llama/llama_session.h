// One llama.cpp context, used by one thread: decode, inject, capture. No queue, no request, no policy: those are
// LlamaEngine's.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "core/kv_record.h"
#include "core/rope.h"
#include "engine/llama/kv_capture.h"
#include "engine/llama/llama_handles.h"
#include "engine/llama/state_blob.h"

namespace inferscale {

// LRU of exact cells by their tokens: headers, headers with a system text, stems of open runs. One budget for all.
class PrefixCells {
 public:
  explicit PrefixCells(size_t budget_bytes) : budget_bytes_(budget_bytes) {}
  std::shared_ptr<const StateCells> Find(std::span<const TokenId> tokens);
  void Keep(std::span<const TokenId> tokens, std::shared_ptr<const StateCells> cells);
  void Clear();
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    Hash128 key;
    std::shared_ptr<const StateCells> cells;
  };
  size_t budget_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Hash128, std::list<Entry>::iterator> by_tokens_;
};

struct InjectTimes {
  double compose_ms = 0;
  double inject_ms = 0;
};

class LlamaSession {
 public:
  struct Options {
    uint32_t context_tokens = 0;
    int threads = 1;
    bool flash_attention = false;  // off on CPUs: attention over an injected prefix is faster without
    size_t prefix_cells_bytes = 0;
  };

  // model must outlive the session. kEngine when the context cannot be made (memory).
  static Result<std::unique_ptr<LlamaSession>> Make(llama_model* model, const Options& options);

  // Learns where keys, values, rope and cells are. Called once, before anything that captures or injects.
  // kModelUnsupported, kMismatch: this model runs as text.
  Status Probe();
  bool probed() const { return layout_.shape.layers != 0; }
  const KvProbe& probe() const { return probe_; }

  uint32_t context_tokens() const { return context_tokens_; }

  // Empties the sequence.
  void Clear();
  // Takes what stands at `position` and behind off the sequence.
  Status Truncate(uint32_t position);
  // The sequence as llama.cpp's own bytes, and back. For this session only.
  Result<std::vector<uint8_t>> Save() const;
  Status Restore(std::span<const uint8_t> saved);
  // Overwrites kept cells, the whole cache, and by a pass over meaningless tokens what buffers hold of the last ones.
  Status Wipe();
  // Computes tokens at positions [position, …). logits: of the last token. kCancelled when *cancelled turns true
  // (checked between and inside batches); the sequence must be cleared then.
  Status Decode(std::span<const TokenId> tokens, uint32_t position, bool logits,
                const std::atomic<bool>* cancelled = nullptr);
  // [vocabulary] of the last Decode with logits; valid until the next call.
  std::span<const float> Logits() const;
  TokenId Argmax() const;

  // The exact cells of `tokens` from position 0: kept ones, or computed now and kept when `keep`. Computing replaces
  // the sequence; computed (out): tokens computed by this call.
  Result<std::shared_ptr<const StateCells>> CellsOf(std::span<const TokenId> tokens, bool keep, uint32_t* computed);

  // Replaces the sequence by prefix cells (may be null) and records. end: position after the last one.
  // rotate = false copies keys unrotated: the self-test's negative control.
  Result<InjectTimes> Inject(const StateCells* prefix, std::span<const PlacedRecord> records, uint32_t end,
                             bool rotate = true);

  // Decode that also captures. pieces: lengths of consecutive spans of `tokens`, one payload each, starting at token
  // `skip`.
  Result<std::vector<KvPayload>> DecodeAndCapture(std::span<const TokenId> tokens, uint32_t position, uint32_t skip,
                                                  std::span<const uint32_t> pieces);

 private:
  LlamaSession(llama_model* model, const Options& options);

  llama_model* model_;
  uint32_t context_tokens_;
  ThreadPool pool_;
  KvCapture capture_;
  LlamaContextPtr context_;
  LlamaBatch batch_;
  KvProbe probe_;
  StateLayout layout_;
  RopeTable rope_;
  std::unique_ptr<StateBuffer> buffer_;
  PrefixCells prefix_cells_;
  const std::atomic<bool>* cancelled_ = nullptr;  // of the running Decode, for llama.cpp's abort callback
};

}  // namespace inferscale
