#include "memory/memory_source.h"

#include "base/clock.h"
#include "core/fact.h"
#include "engine/tokenizer.h"

namespace inferscale {

namespace {

constexpr int32_t kWantedPriority = 1;

std::vector<WantedRecord> Wanted(std::span<const RecalledFact> facts) {
  std::vector<WantedRecord> wanted;
  for (const RecalledFact& fact : facts) wanted.push_back({fact.key, fact.id, fact.version, fact.tokens});
  return wanted;
}

}  // namespace

Result<std::vector<RecalledFact>> MemorySource::Recall(std::string_view question, size_t top_k) {
  RecallOptions options;
  options.top_k = top_k;
  TRY_ASSIGN(std::vector<RecallHit> hits, memory_.Recall(name_space_, question, options));
  std::vector<RecalledFact> recalled;
  for (RecallHit& hit : hits) {
    Tokens tokens = engine_.tokenizer().Text(FactPromptText(hit.fact.text, hit.fact.date));
    recalled.push_back({hit.fact.seq, std::move(hit.fact.id), hit.fact.version, hit.score, std::move(tokens),
                        std::move(hit.fact.text)});
  }
  return recalled;
}

Result<std::vector<RecordHandle>> MemorySource::Load(std::span<const RecalledFact> facts) {
  if (facts.empty()) return std::vector<RecordHandle>();
  TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
  const EngineInfo& engine = engine_.info();
  TRY_ASSIGN(std::vector<RecordHandle> records,
             memory_.vault().Load(ns, engine.model_key, engine.kv_shape, Wanted(facts)));
  std::vector<FactSeq> missing;
  for (size_t i = 0; i < facts.size(); ++i)
    if (records[i] == nullptr) missing.push_back(facts[i].key);
  if (!missing.empty()) TRY(memory_.catalog().Enqueue(missing, kWantedPriority, NowMicros()));
  return records;
}

Result<std::vector<bool>> MemorySource::HasRecords(std::span<const RecalledFact> facts) {
  if (facts.empty()) return std::vector<bool>();
  TRY_ASSIGN(const NamespaceInfo ns, memory_.Find(name_space_));
  return memory_.vault().Has(ns.id, engine_.info().model_key, Wanted(facts));
}

}  // namespace inferscale
