// Fact runs: how the facts of one namespace are grouped for encoding with anchored windows (design 2, 6.3, 6.6).
//
// A run is up to C facts in order behind an anchor, the up to C facts before its first. One causal pass over
// [header, anchor, run] encodes the whole run, so the member at place j has seen the anchor and the members before it.
// The book keeps runs and anchors stable while facts come and go, so that records stay valid wherever they can.
#pragma once

#include <cstdint>
#include <span>
#include <string>
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
  std::vector<RunFact> anchor;   // in order; chosen when the run opens
  std::vector<RunFact> members;  // in order
  bool closed = false;           // full: it never takes another member, also after losing some
};

class RunBook {
 public:
  // run_facts: C. run_tokens: a run's members, and an anchor, each hold at most this many tokens (a longer fact is
  // alone in its run).
  RunBook(int run_facts, int run_tokens);

  const std::vector<FactRun>& runs() const { return runs_; }

  // Brings the book up to date with the live facts of the namespace, all of them, in order of (event time, arrival).
  // Strikes what is gone or changed from members and anchors; an anchor that fell below half of its size when chosen
  // is chosen again; places new facts: behind the last open run's members when they follow its last member in order,
  // else (late facts) in side runs of their own, anchored before their first. Deterministic. Amortised O(n).
  void Update(std::span<const RunFact> live);

  // JSON for the cache folder; Parse checks every field (kCorrupt).
  std::string ToJson() const;
  static Result<RunBook> FromJson(std::string_view json, int run_facts, int run_tokens);

 private:
  int run_facts_;
  int run_tokens_;
  std::vector<FactRun> runs_;
};

}  // namespace inferscale
