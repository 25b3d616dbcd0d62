#include "memory/recall.h"

namespace inferscale {

Result<std::vector<SearchHit>> Recall(const AnswerContext& context, std::string_view question, size_t top_k) {
  TRY_ASSIGN(const std::vector<float> query, context.embedder.Embed({&question, 1}));
  return context.facts.index().Search(query, top_k);
}

Result<std::vector<PromptFact>> PinRecords(const AnswerContext& context, const std::vector<SearchHit>& hits,
                                           const AnswerOptions& options) {
  std::vector<PromptFact> ranked;
  for (const SearchHit& hit : hits) ranked.push_back({hit.row, context.facts[hit.row].tokens, false, nullptr});
  if (context.encoder == nullptr || !context.engine.info().can_inject) return ranked;
  if (options.mode == AnswerMode::kText) {
    for (PromptFact& fact : ranked) fact.has_record = context.cache->Contains(context.encoder->KeyOf(fact.fact));
    return ranked;
  }
  std::vector<RecordKey> keys;
  for (size_t rank = options.tail; rank < ranked.size(); ++rank)
    keys.push_back(context.encoder->KeyOf(ranked[rank].fact));
  TRY_ASSIGN(const std::vector<RecordHandle> records, context.cache->FindAll(keys, context.engine.info().kv_shape));
  for (size_t i = 0; i < records.size(); ++i) {
    PromptFact& fact = ranked[options.tail + i];
    fact.record = records[i];
    fact.has_record = records[i] != nullptr;
  }
  return ranked;
}

}  // namespace inferscale
