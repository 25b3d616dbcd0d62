// Memory: search.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "index/filter.h"
#include "index/words.h"
#include "memory/memory.h"

namespace inferscale {

namespace {

// A long fact may be found by many of its parts: so many times as many hits are looked at, again and again until there
// are enough facts. The first look is enough where facts have two parts each.
constexpr size_t kPartsFactor = 2;
constexpr size_t kMoreFactor = 8;

bool IsLive(const FactRow& fact, const RecallOptions& options, Micros now) {
  return (!fact.expires_us || *fact.expires_us > now) && (options.superseded || fact.superseded_by.empty());
}

}  // namespace

Result<std::vector<RecallHit>> Memory::Recall(std::string_view name_space, std::string_view query,
                                              const RecallOptions& options) {
  TRY(NeedEmbedder());
  TRY(CheckQuery(query));
  TRY_ASSIGN(const std::vector<float> vector, embedder_->Embed({&query, 1}));
  return Recall(name_space, query, vector, options);
}

Result<std::vector<RecallHit>> Memory::Recall(std::string_view name_space, std::string_view query,
                                              std::span<const float> vector, const RecallOptions& options) {
  TRY(NeedEmbedder());
  if (options.top_k > limits::kTopKMax)
    return Fail(ErrorCode::kTooLarge, fmt::format("top_k is {}, more than {}", options.top_k, limits::kTopKMax));
  TRY_ASSIGN(const Filter filter, Filter::Parse(options.filter));  // wrong filters are errors of unknown namespaces too
  const auto ns = Find(name_space);
  if (!ns && ns.error().code == ErrorCode::kNotFound) return std::vector<RecallHit>();
  TRY(ns);
  TRY_ASSIGN(const std::vector<std::string> terms, QueryTerms(query));
  IndexQuery search;
  search.vector = vector;
  search.terms = terms;
  search.top_k = options.top_k * (options.parts_as_parents ? kPartsFactor : 1);
  search.threshold = options.threshold;
  search.superseded = options.superseded;
  if (!filter.empty()) search.filter = [&](const FactRow& row) { return filter.Matches(FilterFact::Of(row)); };
  TRY_ASSIGN(const std::shared_ptr<NameSpaceIndex> index, indexes_->Get(ns->id));
  catalog_->Touch(ns->id);
  for (;; search.top_k *= kMoreFactor) {
    TRY_ASSIGN(const std::vector<IndexHit> found, index->Search(*catalog_, search, Now()));
    TRY_ASSIGN(std::vector<RecallHit> hits, ToHits(ns->id, found, options));
    if (!options.parts_as_parents || hits.size() == options.top_k || found.size() < search.top_k) return hits;
  }
}

// Rows are read after the search: what was deleted meanwhile is not there any more.
Result<std::vector<RecallHit>> Memory::ToHits(NamespaceId ns, std::span<const IndexHit> found,
                                              const RecallOptions& options) {
  std::vector<FactSeq> seqs;
  std::unordered_map<FactSeq, const IndexHit*> hit_of;
  for (const IndexHit& hit : found) {
    seqs.push_back(hit.fact);
    hit_of[hit.fact] = &hit;
  }
  TRY_ASSIGN(std::vector<FactRow> rows, catalog_->GetFacts(ns, seqs));
  const Micros now = Now();
  std::vector<RecallHit> hits;
  std::unordered_set<FactSeq> shown;
  for (FactRow& row : rows) {
    const IndexHit& hit = *hit_of.at(row.seq);
    if (!IsLive(row, options, now)) continue;
    if (options.parts_as_parents && row.part_of != 0) {
      if (!shown.insert(row.part_of).second) continue;
      TRY_ASSIGN(std::vector<FactRow> parent, catalog_->GetFacts(ns, std::span(&row.part_of, 1)));
      if (parent.empty()) continue;
      row = std::move(parent.front());
    }
    hits.push_back({std::move(row), hit.score, hit.cosine, hit.keyword});
    if (hits.size() == options.top_k) break;
  }
  return hits;
}

Result<std::vector<std::string>> Memory::Select(std::string_view name_space, std::string_view filter) {
  TRY_ASSIGN(const Filter parsed, Filter::Parse(filter));
  TRY_ASSIGN(const NamespaceInfo ns, Find(name_space));
  std::vector<std::string> ids;
  ScanOptions options;
  options.parents = true;
  TRY(catalog_->ScanFacts(ns.id, options, [&](const ScanRow& row) {
    if (row.fact.kind != FactKind::kPart && parsed.Matches(FilterFact::Of(row.fact))) ids.push_back(row.fact.id);
    return true;
  }));
  return ids;
}

}  // namespace inferscale
