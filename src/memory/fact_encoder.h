// Encoding for the durable memory: what the queue of a namespace asks for becomes KV records, a fact run at a time
// (core/fact_run.h). Derived work: it can stop, fail or crash anywhere and goes on later.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "core/fact_run.h"
#include "core/window.h"
#include "engine/engine.h"
#include "memory/encoder.h"
#include "memory/group_encoder.h"
#include "memory/memory.h"

namespace inferscale {

enum class EncodeWhat : uint8_t {
  // Namespaces whose time has come: a full run waits, a fact was recalled without a record, or the delay is over.
  // What failed lately waits. RunAll sees a namespace once the first of its facts is due.
  kDue,
  kQueued,  // everything that is queued
  kAll,     // every live fact, also those with a usable record
};

struct EncodeControl {
  ProgressFn progress;            // facts done of those this call found to do; may be null
  std::function<bool()> go_on;    // before each pass; false: the rest stays queued. May be null
  size_t pass_tokens = SIZE_MAX;  // of one pass
};

class FactEncoder {
 public:
  // All outlive the encoder; header: the tokens every pass starts with. kInvalidArgument: a window of kind kNear, which
  // needs all vectors of a namespace at once and is offered for files of facts only.
  static Result<FactEncoder> Make(Memory& memory, Engine& engine, Tokens header, const WindowSpec& window);

  // One call at a time. Facts that fail are put back with a delay, and counted; so are those of a pass that the store
  // had no room for. An error is the catalog's or the store's: nothing else can be done either.
  Result<EncodeStats> Run(const NamespaceInfo& ns, EncodeWhat what, const EncodeControl& control);
  // The same for all namespaces that have something queued, those in use first.
  Result<EncodeStats> RunAll(EncodeWhat what, const EncodeControl& control);

 private:
  struct Fact;
  struct Plan;
  struct Group;
  FactEncoder(Memory& memory, Engine& engine, Tokens header, const WindowSpec& window)
      : memory_(&memory), engine_(&engine), header_(std::move(header)), window_(window) {}

  Result<std::vector<NamespaceInfo>> AllNamespaces() const;
  Status ScanLive(NamespaceId ns, Plan& plan) const;
  Status FindMissing(NamespaceId ns, EncodeWhat what, Plan& plan) const;
  Status PlanRuns(NamespaceId ns, Plan& plan) const;
  Status PlanSingles(NamespaceId ns, Plan& plan) const;
  Status AddTurns(NamespaceId ns, const Fact& fact, Group& group) const;
  // False: a fact of it changed since the plan was made.
  Result<bool> ReadTexts(NamespaceId ns, Group& group) const;
  void FitContext(Group& group) const;
  Result<GroupStats> MakeRecords(const NamespaceInfo& ns, const Group& group, const EncodeControl& control,
                                 std::vector<NewRecord>& made) const;
  Status EncodeGroup(const NamespaceInfo& ns, const Group& group, const EncodeControl& control,
                     EncodeStats& stats) const;

  Memory* memory_;
  Engine* engine_;
  Tokens header_;
  WindowSpec window_;
};

}  // namespace inferscale
