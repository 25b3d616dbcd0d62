// Fact runs: how the facts of one namespace are grouped for encoding with anchored windows (docs/architecture.md).
//
// A run is up to C facts in order behind an anchor, the up to C facts before its first. One causal pass over
// [header, anchor, run] encodes the whole run, so the member at place j has seen the anchor and the members before it.
// The book keeps runs and anchors stable while facts come and go, so that records stay valid wherever they can.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"
#include "core/types.h"

namespace inferscale {

// A fact as the book sees it. Equal (id, version, digest) means the same tokens.
struct RunFact {
  std::string id;
  uint32_t version = 1;
  Hash128 digest;       // of its tokens
  uint32_t tokens = 0;  // how many

  bool operator==(const RunFact&) const = default;
};

struct FactRun {
  std::vector<RunFact> anchor;   // in order, all before the first member; chosen when the run opens
  std::vector<RunFact> members;  // in order, never empty
  uint32_t anchor_chosen = 0;    // the anchor's size when it was chosen
  bool closed = false;           // never takes another member, also after losing some
  bool side = false;             // made of late facts, closed from the start

  bool operator==(const FactRun&) const = default;
};

// What the member at place `member` has seen, in order: the anchor, then the members before it.
void WindowOf(const FactRun& run, size_t member, std::vector<const RunFact*>& seen);

class RunBook {
 public:
  // run_facts: C. run_tokens: a run's members, and an anchor, each hold at most this many tokens (a longer fact is
  // alone in its run, and in no anchor).
  RunBook(int run_facts, int run_tokens);
  // Of runs that a store kept, in the order in which they were opened; made with other limits they stay as they are.
  RunBook(int run_facts, int run_tokens, std::vector<FactRun> runs);

  const std::vector<FactRun>& runs() const { return runs_; }

  // Brings the book up to date with the live facts of the namespace, all of them, ids distinct, in order of (event
  // time, arrival). Deterministic, idempotent, O(n C). In this order:
  //  1. What is gone, changed, or no longer in order (as few as possible) is struck from members and anchors; a run
  //     without members goes.
  //  2. An anchor that fell below half of its size when chosen is chosen again, as in 4.
  //  3. New facts that follow the last member of the last main run join that run, or open the next one when it is full;
  //     a run is closed when it has C members or the next fact's tokens do not fit.
  //  4. The other new facts are late. Those of one call form side runs of their own.
  //  An anchor is the up to C live facts before the run's first member, nearest first, until run_tokens are reached.
  //
  // What a window may lose: deleting a fact changes the windows of the members behind it in its own run, and of the
  // runs that have it in their anchor; no others. In a history of additions in order, an anchor is the run before it,
  // so that these are at most (C - 1) + C members (side runs counted beside). Where tokens and not C cut the runs, an
  // anchor may reach one run further back, and it is at most (C - 1) + (C - 1) + C.
  // Adding facts, anywhere, changes no window of another fact (but for anchors chosen again, which were stale).
  void Update(std::span<const RunFact> live);

  // JSON for the cache folder. FromJson checks every field: kCorrupt; kMismatch when it was made with other limits.
  std::string ToJson() const;
  static Result<RunBook> FromJson(std::string_view json, int run_facts, int run_tokens);

 private:
  using Order = std::unordered_map<std::string_view, size_t>;  // place of a live fact

  void Strike(std::span<const RunFact> live, const Order& order);
  void ChooseAnchor(FactRun& run, std::span<const RunFact> live, size_t first) const;
  // Appends a fact to the run, or closes it and says no.
  bool Take(FactRun& run, const RunFact& fact) const;
  void Place(std::span<const RunFact> live, size_t place, bool side, FactRun*& run);
  FactRun* LastMainRun();

  int run_facts_;
  int run_tokens_;
  std::vector<FactRun> runs_;  // in the order in which they were opened
};

}  // namespace inferscale
