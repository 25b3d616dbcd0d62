#include "memory/file_source.h"

namespace inferscale {

Result<std::vector<RecalledFact>> FileSource::Recall(std::string_view question, size_t top_k) {
  TRY_ASSIGN(const std::vector<float> query, embedder_.Embed({&question, 1}));
  TRY_ASSIGN(const std::vector<SearchHit> hits, facts_.index().Search(query, top_k));
  std::vector<RecalledFact> recalled;
  for (const SearchHit& hit : hits) {
    const FactSet::Item& item = facts_[hit.row];
    recalled.push_back({hit.row, item.fact.id, item.fact.version, hit.score, item.tokens, item.fact.text});
  }
  return recalled;
}

Result<std::vector<RecordHandle>> FileSource::Load(std::span<const RecalledFact> facts) {
  if (encoder_ == nullptr || facts.empty()) return std::vector<RecordHandle>(facts.size());
  std::vector<RecordKey> keys;
  for (const RecalledFact& fact : facts) keys.push_back(encoder_->KeyOf(fact.key));
  return cache_->FindAll(keys, shape_);
}

Result<std::vector<bool>> FileSource::HasRecords(std::span<const RecalledFact> facts) {
  std::vector<bool> has(facts.size());
  if (encoder_ == nullptr) return has;
  for (size_t i = 0; i < facts.size(); ++i) has[i] = cache_->Contains(encoder_->KeyOf(facts[i].key));
  return has;
}

}  // namespace inferscale
