#include "core/sticky_plan.h"

#include <unordered_set>

#include "base/assert.h"

namespace inferscale {

Hash128 ConversationKey(std::span<const std::pair<std::string, std::string>> messages) {
  Hasher hasher;
  hasher.U64(messages.size());
  for (const auto& [role, content] : messages) hasher.Str(role).Str(content);
  return hasher.Finish();
}

StickyPlanBook::StickyPlanBook(size_t capacity) : capacity_(capacity) { INFERSCALE_ASSERT(capacity >= 1); }

void StickyPlanBook::Keep(const Hash128& conversation, StickyPlan plan) {
  Erase(conversation);
  if (entries_.size() == capacity_) Erase(Hash128(entries_.back().conversation));  // a copy: its entry goes
  entries_.push_front({conversation, std::move(plan)});
  by_conversation_[conversation] = entries_.begin();
  INFERSCALE_ASSERT(entries_.size() == by_conversation_.size());
}

void StickyPlanBook::Erase(const Hash128& conversation) {
  const auto found = by_conversation_.find(conversation);
  if (found == by_conversation_.end()) return;
  entries_.erase(found->second);
  by_conversation_.erase(found);
}

std::vector<FactVersion> StickyPlanBook::NewFacts(const StickyPlan& plan, std::span<const FactVersion> ranked) {
  std::unordered_set<std::string_view> held;  // by id: a plan that holds another version no longer holds (Find)
  for (const FactVersion& fact : plan.injected) held.insert(fact.id);
  for (const auto& facts : plan.added)
    for (const FactVersion& fact : facts) held.insert(fact.id);
  std::vector<FactVersion> fresh;
  for (const FactVersion& fact : ranked)
    if (held.insert(fact.id).second) fresh.push_back(fact);
  return fresh;
}

}  // namespace inferscale
