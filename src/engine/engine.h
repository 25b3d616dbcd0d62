// What the memory layer needs from an inference engine. The embedded engine implements it over one llama.cpp context; a
// remote engine (vLLM) and a batching one fit behind it: every call returns at once and reports later, and an engine
// holds no record bytes beyond the handles of requests in flight.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "core/kv_shape.h"
#include "core/prompt_plan.h"
#include "core/rope.h"
#include "core/types.h"

namespace inferscale {

class Tokenizer;
class ChatTemplate;

struct SelfTestReport {
  bool ran = false;
  bool passed = false;
  uint32_t tokens = 0;            // injected per trial
  std::vector<uint32_t> shifts;   // positions tried
  double cosine_bound = 0.0;      // 0.999, or less where the engine does not agree with itself that well
  double worst_cosine = 0.0;      // over shifts, of the logits behind the questions; must reach the bound
  bool same_argmax = false;       // at every step and shift, up to near ties
  double unrotated_cosine = 0.0;  // the same with rotation left out: must fail
  std::string detail;             // one line for people
};

// Constant after the engine was made.
struct EngineInfo {
  std::string engine;  // "llama"
  std::string model_path;
  std::string model_name;  // for people: the file's name without its ending
  std::string architecture;
  ModelKey model_key;
  KvShape kv_shape;
  RopeSpec rope;
  uint32_t context_tokens = 0;
  int threads = 0;          // of the CPU
  std::string device;       // what computes the model: "CPU", or a GPU's name
  bool can_inject = false;  // false: text mode, and why
  std::string text_mode_reason;
  SelfTestReport self_test;
};

// Where the first token's time went, milliseconds.
struct GenerateTimes {
  double compose_ms = 0;      // records to cells at their final positions
  double inject_ms = 0;       // cells into the engine's cache
  double prefill_ms = 0;      // computing the rest of the prompt; at its first use also the header, which is kept
  double first_token_ms = 0;  // from submission to the first token sampled
  double total_ms = 0;
  uint32_t reused_tokens =
      0;  // at the prompt's front, kept from the conversation's last turn: not injected, not computed
};

enum class FinishReason : uint8_t { kStop, kLength, kCancelled, kError };

struct GenerateRequest {
  PromptPlan plan;
  std::vector<RecordHandle> records;  // one per kRecord span, in order; held until the stream ends
  uint32_t max_tokens = 0;            // >= 1
  // Measurement only: compute the injected region in place before the clock starts, as an engine's own prefix cache
  // would have it. The first token of such a request is the floor that injection is compared with.
  bool prefill_region_first = false;
  // Not zero: turns of one conversation of one namespace. The engine may keep what it computed of them, and computes of
  // the next turn only what is new behind it, as long as the same records are injected.
  Hash128 conversation;
};

// One answer being generated. Used by one thread, but for Cancel; the engine fills it from its own.
class GenerateStream {
 public:
  virtual ~GenerateStream() = default;  // cancels if still running, and waits until the engine let go of the records

  // The next token, or nothing when the answer is complete. Blocks.
  virtual Result<std::optional<TokenId>> Next() = 0;
  // From any thread. Tokens not read yet are dropped: Next returns nothing, as soon as the engine let go, and
  // finish_reason is kCancelled, even where the engine had come to the end by itself.
  virtual void Cancel() = 0;
  // Valid after Next returned nothing or an error.
  virtual GenerateTimes times() const = 0;
  virtual FinishReason finish_reason() const = 0;
};

// One causal pass that yields records: [stem, members, fresh], of which only `fresh` (and the stem, when its cells are
// not kept) is computed.
struct CaptureRequest {
  Tokens stem;                        // header and window, from position 0; not empty
  std::vector<RecordHandle> members;  // injected behind the stem at their original positions, in order
  std::vector<Tokens> fresh;          // computed behind them, in order; one payload each; none empty
  bool keep_stem = false;             // keep the stem's cells for the next extension of the same run
};

struct CaptureResult {
  std::vector<KvPayload> payloads;  // [fresh.size()]
  uint32_t computed_tokens = 0;
};

class Engine {
 public:
  virtual ~Engine() = default;

  virtual const EngineInfo& info() const = 0;
  virtual const Tokenizer& tokenizer() const = 0;
  virtual const ChatTemplate* chat_template() const = 0;  // nullptr: the model has none

  // Starts an answer. The plan is checked first (CheckPlan, context size, records' shapes and tokens, model key); a
  // plan that cannot run is an error here and changes nothing. Thread-safe. Greedy decoding.
  virtual Result<std::unique_ptr<GenerateStream>> Submit(GenerateRequest request) = 0;

  // Starts an encoding pass. kInvalidArgument, kPromptTooLong; kModelUnsupported in text mode. Thread-safe.
  virtual std::future<Result<CaptureResult>> Capture(CaptureRequest request) = 0;

  // After what was asked for before: overwrites what the engine keeps of earlier requests, in its caches and buffers.
  // For facts that were forgotten; the next request pays for it. Thread-safe.
  virtual std::future<Status> Wipe() = 0;
};

}  // namespace inferscale
