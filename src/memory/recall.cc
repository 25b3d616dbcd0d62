#include "memory/recall.h"

namespace inferscale {

Result<std::vector<PromptFact>> PinRecords(const AnswerContext& context, const std::vector<RecalledFact>& ranked,
                                           const AnswerOptions& options) {
  std::vector<PromptFact> facts;
  for (size_t rank = 0; rank < ranked.size(); ++rank) facts.push_back({rank, ranked[rank].tokens, false, nullptr});
  if (!context.engine.info().can_inject || ranked.size() <= options.tail) return facts;
  const std::span<const RecalledFact> behind_tail = std::span(ranked).subspan(options.tail);
  if (options.mode == AnswerMode::kText) {
    TRY_ASSIGN(const std::vector<bool> has, context.source.HasRecords(behind_tail));
    for (size_t i = 0; i < has.size(); ++i) facts[options.tail + i].has_record = has[i];
    return facts;
  }
  TRY_ASSIGN(std::vector<RecordHandle> records, context.source.Load(behind_tail));
  for (size_t i = 0; i < records.size(); ++i) {
    PromptFact& fact = facts[options.tail + i];
    fact.has_record = records[i] != nullptr;
    fact.record = std::move(records[i]);
  }
  return facts;
}

}  // namespace inferscale
