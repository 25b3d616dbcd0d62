#include "memory/window_planner.h"

#include <algorithm>

#include "base/assert.h"

namespace inferscale {

Result<WindowPlanner> WindowPlanner::Make(const WindowSpec& spec, const FactSet& facts, std::vector<TurnItem> turns) {
  if (spec.kind == WindowKind::kTurns && turns.empty())
    return Fail(ErrorCode::kInvalidArgument,
                "--encode-window " + spec.ToString() + " needs the conversation: give it with --turns T.jsonl");
  WindowPlanner planner(spec, facts, std::move(turns));
  for (size_t i = 0; spec.kind == WindowKind::kTurns && i < facts.size(); ++i) {
    const std::string& id = facts[i].fact.turn;
    if (!id.empty() && !planner.turn_places_.contains(id))
      return Fail(ErrorCode::kInvalidArgument,
                  "fact " + facts[i].fact.id + " names turn \"" + id + "\", which the conversation does not hold");
  }
  return planner;
}

WindowPlanner::WindowPlanner(const WindowSpec& spec, const FactSet& facts, std::vector<TurnItem> turns)
    : spec_(spec), facts_(&facts), turns_(std::move(turns)) {
  for (size_t i = 0; i < turns_.size(); ++i) turn_places_.emplace(turns_[i].turn.id, i);
}

std::vector<size_t> WindowPlanner::NearestEarlier(size_t fact, size_t count, size_t before) const {
  if (count == 0 || before == 0) return {};
  const ExactIndex& index = facts_->index();
  const auto hits = index.Search(index.Vector(fact), count, before);
  INFERSCALE_ASSERT(hits.has_value());
  std::vector<size_t> nearest;
  for (const SearchHit& hit : *hits) nearest.push_back(hit.row);
  std::sort(nearest.begin(), nearest.end());  // in order of event time, as every window is
  return nearest;
}

Result<std::vector<Sight>> WindowPlanner::ContextOf(size_t fact) const {
  std::vector<Sight> seen;
  const auto see_preceding = [&](size_t count) {
    for (size_t i = fact - std::min(fact, count); i < fact; ++i) seen.push_back((*facts_)[i].AsSight());
  };
  const auto count = static_cast<size_t>(spec_.count);
  switch (spec_.kind) {
    case WindowKind::kNone:
    case WindowKind::kAnchored:
      break;
    case WindowKind::kFacts:
      see_preceding(count);
      break;
    case WindowKind::kNear:
      for (const size_t i : NearestEarlier(fact, static_cast<size_t>(spec_.near), fact - std::min(fact, count)))
        seen.push_back((*facts_)[i].AsSight());
      see_preceding(count);
      break;
    case WindowKind::kTurns: {
      const auto source = turn_places_.find((*facts_)[fact].fact.turn);
      if (source == turn_places_.end()) break;  // a fact without a source turn sees the header only
      const size_t place = source->second;
      for (size_t i = place - std::min(place, count); i < place; ++i)
        seen.push_back({turns_[i].turn.id, 1, turns_[i].tokens});
      break;
    }
  }
  return seen;
}

Result<std::vector<WindowGroup>> WindowPlanner::PlanRuns(RunBook& book) const {
  std::vector<RunFact> live;
  std::unordered_map<std::string_view, size_t> place;
  for (size_t i = 0; i < facts_->size(); ++i) {
    const FactSet::Item& item = (*facts_)[i];
    live.push_back({item.fact.id, item.fact.version, Hasher().Ids(item.tokens).Finish(),
                    static_cast<uint32_t>(item.tokens.size())});
    place[item.fact.id] = i;
  }
  book.Update(live);
  std::vector<WindowGroup> groups;
  for (const FactRun& run : book.runs()) {
    WindowGroup& group = groups.emplace_back();
    for (const RunFact& fact : run.anchor) group.context.push_back((*facts_)[place.at(fact.id)].AsSight());
    for (const RunFact& fact : run.members) group.facts.push_back(place.at(fact.id));
  }
  return groups;
}

Result<std::vector<WindowGroup>> WindowPlanner::Plan(RunBook& book, size_t room) const {
  if (spec_.kind == WindowKind::kAnchored) return PlanRuns(book);  // runs and anchors have limits of their own
  std::vector<WindowGroup> groups;
  for (size_t i = 0; i < facts_->size(); ++i) {
    TRY_ASSIGN(std::vector<Sight> context, ContextOf(i));
    size_t tokens = 0, keep = context.size();
    while (keep > 0 && tokens + context[keep - 1].tokens.size() <= room) tokens += context[--keep].tokens.size();
    context.erase(context.begin(), context.begin() + static_cast<std::ptrdiff_t>(keep));
    groups.push_back({{i}, std::move(context)});
  }
  return groups;
}

}  // namespace inferscale
