// Sticky plans: in a multi-turn chat the injected region stays fixed, so that the engine's own prefix cache keeps the
// conversation. Facts that become relevant later are added as text next to the newest user message.
#pragma once

#include <cstdint>
#include <list>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "core/types.h"

namespace inferscale {

struct FactVersion {
  std::string id;
  uint32_t version = 1;
  bool operator==(const FactVersion&) const = default;
};

// What a conversation's prompt is built from until it has to change.
struct StickyPlan {
  std::vector<FactVersion> injected;              // in prompt order
  std::vector<std::vector<FactVersion>> added;    // [user message] facts added as text next to that message
};

// Identifies a conversation by its earlier messages: (role, content) pairs, all but the newest.
Hash128 ConversationKey(std::span<const std::pair<std::string, std::string>> messages);

// LRU map from conversation to plan, bounded. Not thread-safe: its owner serialises calls.
class StickyPlanBook {
 public:
  explicit StickyPlanBook(size_t capacity);

  // The plan kept for a conversation, when it still holds: no fact of it is in `gone` terms, i.e. is_live says yes for
  // every (id, version). A plan that no longer holds is forgotten and nullptr returned. The pointer is valid until the
  // next call.
  template <class IsLive>
  const StickyPlan* Find(const Hash128& conversation, IsLive is_live);

  // Keeps `plan` for the conversation as it continues: the key of the messages including the newest exchange.
  void Keep(const Hash128& conversation, StickyPlan plan);

  // Ranked facts of the newest question that the plan does not hold yet, in rank order.
  static std::vector<FactVersion> NewFacts(const StickyPlan& plan, std::span<const FactVersion> ranked);

  size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    Hash128 conversation;
    StickyPlan plan;
  };
  void Erase(const Hash128& conversation);

  size_t capacity_;
  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<Hash128, std::list<Entry>::iterator> by_conversation_;
};

template <class IsLive>
const StickyPlan* StickyPlanBook::Find(const Hash128& conversation, IsLive is_live) {
  const auto found = by_conversation_.find(conversation);
  if (found == by_conversation_.end()) return nullptr;
  const auto holds = [&](const std::vector<FactVersion>& facts) {
    for (const FactVersion& fact : facts)
      if (!is_live(fact)) return false;
    return true;
  };
  bool all = holds(found->second->plan.injected);
  for (const auto& facts : found->second->plan.added) all = all && holds(facts);
  if (!all) {
    Erase(conversation);
    return nullptr;
  }
  entries_.splice(entries_.begin(), entries_, found->second);
  return &found->second->plan;
}

}  // namespace inferscale
