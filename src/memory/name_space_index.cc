#include "memory/name_space_index.h"

#include <algorithm>
#include <limits>

#include "index/fusion.h"
#include "index/keyword_search.h"

namespace inferscale {

namespace {
constexpr Micros kNever = std::numeric_limits<Micros>::max();
}

// The namespace as keyword search sees it: statistics of the catalog, lengths and visibility of the rows in memory.
class NameSpaceIndex::Terms : public PostingSource {
 public:
  Terms(const NameSpaceIndex& index, Catalog& catalog, const NamespaceInfo& info, const RowMask* mask)
      : index_(index), catalog_(catalog), info_(info), mask_(mask) {}

  uint64_t facts() const override { return info_.searchable; }
  uint64_t words() const override { return info_.words; }
  Result<std::vector<TermPostings>> Postings(std::span<const std::string> terms, size_t cap) override {
    return catalog_.Postings(info_.id, terms, cap);
  }
  std::optional<uint32_t> Words(FactSeq fact) const override {
    const auto row = index_.row_of_.find(fact);
    if (row == index_.row_of_.end() || (mask_ != nullptr && !mask_->Test(row->second))) return std::nullopt;
    return index_.rows_[row->second].words;
  }

 private:
  const NameSpaceIndex& index_;
  Catalog& catalog_;
  const NamespaceInfo& info_;
  const RowMask* mask_;
};

std::shared_lock<std::shared_mutex> NameSpaceIndex::LockToRead() const {
  const std::lock_guard gate(gate_);
  return std::shared_lock(mutex_);
}

std::unique_lock<std::shared_mutex> NameSpaceIndex::LockToWrite() {
  const std::lock_guard gate(gate_);
  return std::unique_lock(mutex_);
}

Status NameSpaceIndex::Load(Catalog& catalog) {
  Status status;
  ScanOptions options;
  options.with_vector = true;
  TRY(catalog.ScanFacts(ns_, options, [&](const ScanRow& row) {
    if (row.vector.empty()) return true;  // damaged, or waiting for `reembed`
    status = Add(row.fact.seq, row.vector, row.fact.words, row.fact.expires_us);
    if (!status) return false;
    if (!row.fact.superseded_by.empty()) Apply({.superseded = {row.fact.seq}});
    return true;
  }));
  return status;
}

Status NameSpaceIndex::Add(FactSeq fact, std::span<const float> vector, uint32_t words,
                           std::optional<Micros> expires_us) {
  const auto lock = LockToWrite();
  if (row_of_.contains(fact)) return {};
  const auto row = static_cast<uint32_t>(index_.size());
  TRY(index_.Add(vector));
  rows_.push_back({fact, expires_us.value_or(kNever), words, false});
  row_of_[fact] = row;
  if (expires_us) ++masked_;
  return {};
}

void NameSpaceIndex::Remove(FactSeq fact) {
  const auto found = row_of_.find(fact);
  if (found == row_of_.end()) return;
  const Row& row = rows_[found->second];
  if (row.superseded || row.expires_us != kNever) --masked_;
  index_.Remove(found->second);
  row_of_.erase(found);
}

void NameSpaceIndex::Apply(const Change& change) {
  const auto lock = LockToWrite();
  for (const FactSeq fact : change.removed) Remove(fact);
  for (const FactSeq fact : change.superseded) {
    const auto found = row_of_.find(fact);
    if (found == row_of_.end()) continue;
    Row& row = rows_[found->second];
    if (!row.superseded && row.expires_us == kNever) ++masked_;
    row.superseded = true;
  }
  if (index_.live() * 2 >= index_.size()) return;
  const std::vector<uint32_t> kept = index_.Compact();
  std::vector<Row> rows;
  for (const uint32_t old : kept) {
    row_of_[rows_[old].fact] = static_cast<uint32_t>(rows.size());
    rows.push_back(rows_[old]);
  }
  rows_ = std::move(rows);
}

void NameSpaceIndex::SetExpiry(FactSeq fact, std::optional<Micros> expires_us) {
  const auto lock = LockToWrite();
  const auto found = row_of_.find(fact);
  if (found == row_of_.end()) return;
  Row& row = rows_[found->second];
  const auto masks = [&] { return row.superseded || row.expires_us != kNever ? 1 : 0; };
  masked_ -= static_cast<size_t>(masks());
  row.expires_us = expires_us.value_or(kNever);
  masked_ += static_cast<size_t>(masks());
}

bool NameSpaceIndex::MayBeFound(const Row& row, const IndexQuery& query, Micros now) const {
  return row.expires_us > now && (query.superseded || !row.superseded);
}

// Rows that may be found; nullopt: all of them.
Result<std::optional<RowMask>> NameSpaceIndex::Mask(Catalog& catalog, const IndexQuery& query, Micros now) const {
  if (query.filter == nullptr) {
    if (masked_ == 0) return std::optional<RowMask>();
    RowMask mask(index_.size(), false);
    for (size_t i = 0; i < rows_.size(); ++i) mask.Set(i, MayBeFound(rows_[i], query, now));
    return std::optional(std::move(mask));
  }
  RowMask mask(index_.size(), false);
  TRY(catalog.ScanFacts(ns_, {}, [&](const ScanRow& row) {
    const auto found = row_of_.find(row.fact.seq);
    if (found != row_of_.end() && MayBeFound(rows_[found->second], query, now))
      mask.Set(found->second, query.filter(row.fact));
    return true;
  }));
  return std::optional(std::move(mask));
}

Result<std::vector<IndexHit>> NameSpaceIndex::Search(Catalog& catalog, const IndexQuery& query, Micros now) const {
  const auto lock = LockToRead();
  TRY_ASSIGN(const std::optional<RowMask> mask, Mask(catalog, query, now));
  const RowMask* allowed = mask ? &*mask : nullptr;
  std::vector<KeywordRow> keywords;
  if (!query.terms.empty()) {
    TRY_ASSIGN(const NamespaceInfo info, catalog.GetNamespace(ns_));
    Terms source(*this, catalog, info, allowed);
    TRY_ASSIGN(const std::vector<KeywordHit> hits, SearchKeywords(source, query.terms));
    for (const KeywordHit& hit : hits) {
      const auto row = row_of_.find(hit.fact);
      if (row != row_of_.end()) keywords.push_back({row->second, hit.score, hit.share});
    }
  }
  TRY_ASSIGN(const std::vector<FusedHit> fused,
             SearchFused(index_, query.vector, keywords, allowed, query.top_k, query.threshold));
  std::vector<IndexHit> hits;
  for (const FusedHit& hit : fused) hits.push_back({rows_[hit.row].fact, hit.score, hit.cosine, hit.keyword});
  return hits;
}

size_t NameSpaceIndex::bytes() const {
  const auto lock = LockToRead();
  // A node of the map: key, row, its link, and the bucket's pointer.
  return sizeof(*this) + index_.bytes() + rows_.capacity() * sizeof(Row) + row_of_.size() * 40;
}

size_t NameSpaceIndex::live() const {
  const auto lock = LockToRead();
  return index_.live();
}

std::shared_ptr<NameSpaceIndexCache::Entry> NameSpaceIndexCache::EntryOf(NamespaceId ns) {
  const std::lock_guard lock(map_mutex_);
  std::shared_ptr<Entry>& entry = entries_[ns];
  if (entry == nullptr) entry = std::make_shared<Entry>();
  entry->used = ++clock_;
  return entry;
}

Result<std::shared_ptr<NameSpaceIndex>> NameSpaceIndexCache::Get(NamespaceId ns) {
  const std::shared_lock any(any_mutex_);
  const std::shared_ptr<Entry> entry = EntryOf(ns);
  std::shared_ptr<NameSpaceIndex> index;
  {
    const std::lock_guard lock(entry->mutex);
    if (entry->index != nullptr) return entry->index;
    index = std::make_shared<NameSpaceIndex>(ns, dims_);
    TRY(index->Load(catalog_));
    entry->index = index;
    Count(*entry);
  }
  Shrink();
  return index;
}

// Brings the sum of bytes up to date. The entry's mutex is held, or all of them are.
void NameSpaceIndexCache::Count(Entry& entry) {
  const size_t bytes = entry.index != nullptr ? entry.index->bytes() : 0;
  bytes_ += bytes - entry.bytes;
  entry.bytes = bytes;
}

// any_mutex_ is held. Entries stay, since their mutex may be waited for; indexes go, down to three quarters so that not
// every load after this one has to look again.
void NameSpaceIndexCache::Shrink() {
  if (bytes_ <= budget_bytes_) return;
  std::vector<std::pair<uint64_t, std::shared_ptr<Entry>>> by_use;
  {
    const std::lock_guard lock(map_mutex_);
    for (const auto& [ns, entry] : entries_) by_use.emplace_back(entry->used, entry);
  }
  std::sort(by_use.begin(), by_use.end());
  for (const auto& [used, entry] : by_use) {
    if (bytes_ <= budget_bytes_ / 4 * 3) return;
    const std::unique_lock lock(entry->mutex, std::try_to_lock);
    if (!lock) continue;  // being loaded or changed: in use
    entry->index = nullptr;
    Count(*entry);
  }
}

Status NameSpaceIndexCache::Change(NamespaceId ns, const std::function<Status()>& commit,
                                   const std::function<Status(NameSpaceIndex&)>& apply) {
  const std::shared_lock any(any_mutex_);
  const std::shared_ptr<Entry> entry = EntryOf(ns);
  {
    const std::lock_guard lock(entry->mutex);
    TRY(commit());
    Follow(*entry, apply);
  }
  Shrink();
  return {};
}

Status NameSpaceIndexCache::ChangeAny(const std::function<Status()>& commit,
                                      const std::function<Status(NameSpaceIndex&)>& apply) {
  const std::unique_lock any(any_mutex_);
  TRY(commit());
  const std::lock_guard lock(map_mutex_);
  for (auto& [ns, entry] : entries_) Follow(*entry, apply);
  return {};
}

// The change is committed: an index that cannot follow is read anew.
void NameSpaceIndexCache::Follow(Entry& entry, const std::function<Status(NameSpaceIndex&)>& apply) {
  if (entry.index == nullptr) return;
  if (!apply(*entry.index)) entry.index = nullptr;
  Count(entry);
}

void NameSpaceIndexCache::Clear(uint32_t dims) {
  const std::unique_lock any(any_mutex_);
  const std::lock_guard lock(map_mutex_);
  dims_ = dims;
  for (auto& [ns, entry] : entries_) {
    entry->index = nullptr;
    Count(*entry);
  }
}

}  // namespace inferscale
