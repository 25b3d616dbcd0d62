// What a fact encoder plans with: of fact_encoder*.cc only.
#pragma once

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/fact_run.h"
#include "memory/fact_encoder.h"

namespace inferscale {

inline bool IsLive(const FactRow& row, Micros now) {
  return row.superseded_by.empty() && (!row.expires_us || *row.expires_us > now);
}

struct FactEncoder::Fact {
  FactSeq seq = 0;
  RunFact run;
  std::string turn;
  bool alone = false;  // it expires: in nobody's window, and without one
};

// Facts that share a pass, and what they see.
struct FactEncoder::Group {
  std::vector<const Fact*> seen, facts;
  std::vector<TurnRow> turns;  // seen too, before the facts
  std::vector<bool> missing;   // [facts]
  bool open = false;           // more facts may come
  int32_t priority = 0;
  std::vector<Tokens> turn_tokens, seen_tokens, tokens;  // of ReadTexts
};

struct FactEncoder::Plan {
  std::vector<Fact> live;                        // in order
  std::unordered_map<FactSeq, int32_t> missing;  // and their priorities
  std::vector<Group> groups;

  bool IsMissing(const Fact& fact) const { return missing.contains(fact.seq); }
  void Add(Group group) {
    for (const Fact* fact : group.facts) {
      const auto found = missing.find(fact->seq);
      group.missing.push_back(found != missing.end());
      if (found != missing.end()) group.priority = std::max(group.priority, found->second);
    }
    groups.push_back(std::move(group));
  }
};

}  // namespace inferscale
