#include "memory/group_encoder.h"

#include "base/assert.h"

namespace inferscale {

namespace {

// The end of the pass that begins with `first`, the facts from `place` on being missing.
size_t PassEnd(const FactGroup& group, size_t first, size_t place) {
  size_t tokens = 0;
  for (size_t i = first; i < place; ++i) tokens += group.facts[i].size();
  size_t end = place;
  while (end < group.facts.size() && group.missing[end]) {
    tokens += group.facts[end].size();
    if (end > place && tokens > group.pass_tokens) break;
    ++end;
  }
  return end;
}

}  // namespace

Result<GroupStats> EncodeFactGroup(Engine& engine, const FactGroup& group, const GroupHooks& hooks) {
  INFERSCALE_ASSERT(group.missing.size() == group.facts.size());
  GroupStats stats;
  std::vector<RecordHandle> members;  // of the facts before `place`, loaded only when a pass needs them
  for (size_t place = 0; place < group.facts.size();) {
    if (!group.missing[place]) {
      ++place;
      continue;
    }
    if (hooks.go_on && !hooks.go_on()) return stats;
    while (members.size() < place) {
      TRY_ASSIGN(RecordHandle member, hooks.load(members.size()));
      if (member == nullptr) break;
      members.push_back(std::move(member));
    }
    // A record that vanished or is damaged is made again with what follows it.
    const size_t first = members.size(), end = PassEnd(group, first, place);
    CaptureRequest request;
    request.stem = group.stem;
    request.members = members;
    request.fresh.assign(group.facts.begin() + static_cast<std::ptrdiff_t>(first),
                         group.facts.begin() + static_cast<std::ptrdiff_t>(end));
    request.keep_stem = group.keep_stem || end < group.facts.size();
    TRY_ASSIGN(CaptureResult captured, engine.Capture(std::move(request)).get());
    stats.computed_tokens += captured.computed_tokens;
    for (size_t i = first; i < end; ++i) {
      stats.fact_tokens += group.facts[i].size();
      if (group.missing[i]) ++stats.made;
      TRY_ASSIGN(RecordHandle member, hooks.made(i, std::move(captured.payloads[i - first])));
      members.push_back(std::move(member));
    }
    place = end;
  }
  return stats;
}

}  // namespace inferscale
