#include "app/kv_state.h"

#include <algorithm>

#include "base/limits.h"

namespace inferscale {

Result<KvStates> KvStates::Read(Catalog& catalog, NamespaceId ns) {
  KvStates states;
  TRY(catalog.ScanRecords([&](const KvRow& row) {
    if (row.name_space == ns) states.encoded_.insert(row.fact);
    return true;
  }));
  TRY_ASSIGN(const std::vector<QueueItem> queued, catalog.QueuedFacts(ns));
  for (const QueueItem& item : queued) states.queued_.insert(item.fact);
  return states;
}

Result<std::string_view> KvStates::Of(Catalog& catalog, const FactRow& fact) const {
  std::vector<FactSeq> pieces{fact.seq};
  if (fact.kind == FactKind::kParent) {
    TRY_ASSIGN(const std::vector<FactRow> parts, catalog.GetParts(fact.name_space, fact.seq));
    pieces.clear();
    for (const FactRow& part : parts) pieces.push_back(part.seq);
  }
  const auto in = [](const std::unordered_set<FactSeq>& set) {
    return [&set](FactSeq seq) { return set.contains(seq); };
  };
  if (std::all_of(pieces.begin(), pieces.end(), in(encoded_))) return "encoded";
  return std::any_of(pieces.begin(), pieces.end(), in(queued_)) ? "queued" : "text";
}

}  // namespace inferscale
