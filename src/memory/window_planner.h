// Which texts every fact sees when it is encoded, and in which passes: the window of --encode-window, made concrete.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "core/fact_run.h"
#include "core/window.h"
#include "memory/fact_set.h"

namespace inferscale {

// Facts that share one causal pass: [header, context, facts in order]. Every fact sees the context and the facts before
// it in the group. Windows other than anchored ones have groups of one.
struct WindowGroup {
  std::vector<size_t> facts;   // indices into the FactSet, ascending
  std::vector<Sight> context;  // what comes before them: an anchor, preceding facts, turns
};

// A turn with its tokens.
struct TurnItem {
  Turn turn;
  Tokens tokens;
};

class WindowPlanner {
 public:
  // turns: of --turns, in order; needed for kTurns only. kInvalidArgument when the spec needs turns that are not there.
  static Result<WindowPlanner> Make(const WindowSpec& spec, const FactSet& facts, std::vector<TurnItem> turns);

  // Groups that hold every fact exactly once. room: tokens a window may have (context less header and fact); what is
  // farthest is left out first. book (anchored windows): the runs as they were, brought up to date. The result refers
  // to the FactSet and to this planner.
  Result<std::vector<WindowGroup>> Plan(RunBook& book, size_t room) const;

 private:
  WindowPlanner(const WindowSpec& spec, const FactSet& facts, std::vector<TurnItem> turns);
  Result<std::vector<WindowGroup>> PlanRuns(RunBook& book) const;
  Result<std::vector<Sight>> ContextOf(size_t fact) const;
  std::vector<size_t> NearestEarlier(size_t fact, size_t count, size_t before) const;

  WindowSpec spec_;
  const FactSet* facts_;
  std::vector<TurnItem> turns_;
  std::unordered_map<std::string, size_t> turn_places_;  // by id
};

}  // namespace inferscale
