#include "memory/kv_vault.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <unordered_set>

#include "base/assert.h"
#include "base/limits.h"

namespace inferscale {

namespace {

// Evicting a little for each record would rewrite the budget's edge again and again.
constexpr uint64_t kEvictShare = 16;        // of the budget, at once
constexpr uint64_t kEntryRoom = 64 + 4095;  // an entry's header and the padding behind its record (segment.md)

KvLocation ToRow(const SegmentLocation& at) { return {at.segment, at.offset, at.bytes}; }

}  // namespace

uint64_t DefaultDiskBudget(const std::filesystem::path& folder) {
  std::error_code error;
  // The store makes the folder, durably; before that it is its parent's file system.
  const bool is_there = std::filesystem::exists(folder, error);
  const std::filesystem::space_info space =
      std::filesystem::space(is_there ? folder : std::filesystem::absolute(folder, error).parent_path(), error);
  if (error) return limits::kRecordCacheBytes;
  // At least one segment, or nothing could ever be stored: a full disk then says so itself.
  return std::max(limits::kSegmentBytes, std::min<uint64_t>(limits::kRecordCacheBytes, space.available / 10));
}

Result<std::unique_ptr<KvVault>> KvVault::Open(const KvVaultOptions& options, Catalog& catalog) {
  std::unique_ptr<KvVault> vault(new KvVault(options, catalog));
  vault->disk_bytes_ = options.disk_bytes != 0 ? options.disk_bytes : DefaultDiskBudget(options.folder);
  vault->name_space_bytes_ = options.name_space_bytes != 0 ? options.name_space_bytes : vault->disk_bytes_;
  SegmentStoreOptions store;
  store.folder = options.folder;
  store.budget_bytes = vault->disk_bytes_;
  store.segment_bytes = std::min<uint64_t>(limits::kSegmentBytes, std::max<uint64_t>(vault->disk_bytes_ / 8, 1u << 20));
  store.files = options.files;
  store.io_uring = options.io_uring;
  OpenReport report;
  TRY_ASSIGN(vault->store_, SegmentStore::Open(store, &report));
  TRY_ASSIGN(vault->hot_, HotSet::Create(options.hot_bytes != 0 ? options.hot_bytes : limits::kHotBytesDefault));
  TRY(vault->Reconcile(report));
  TRY(vault->DestroyPending());
  return vault;
}

// The catalog decides: bytes without a row are destroyed, rows without bytes dropped.
Status KvVault::Reconcile(const OpenReport& report) {
  opening_.damaged_ranges = report.damaged.size() + report.lost_segments.size();
  std::unordered_map<RecordSeq, SegmentLocation> rows;
  TRY(catalog_.ScanRecords([&](const KvRow& row) {
    rows.emplace(row.record, StoreLocation(row.location));
    return true;
  }));
  std::vector<StoredRecord> orphans;
  std::unordered_set<RecordSeq> there;
  for (const StoredRecord& stored : report.records) {
    const auto row = rows.find(stored.record);
    if (row != rows.end() && row->second == stored.location) {
      there.insert(stored.record);
    } else {
      orphans.push_back(stored);
    }
  }
  std::vector<RecordSeq> lost;
  for (const auto& [record, location] : rows)
    if (!there.contains(record)) lost.push_back(record);
  opening_.orphans = orphans.size();
  opening_.lost = lost.size();
  if (!lost.empty()) {
    spdlog::warn("{} KV records are not in the store any more: their facts are queued to be encoded", lost.size());
    TRY(catalog_.DropRecords(lost, true));
  }
  return store_->Destroy(orphans);
}

// Usable rows, and of which of `wanted` each is.
Result<std::vector<KvRow>> KvVault::RowsOf(NamespaceId ns, const ModelKey& model, std::span<const WantedRecord> wanted,
                                           std::vector<size_t>& of) {
  std::vector<FactSeq> facts;
  std::unordered_map<FactSeq, size_t> place;
  for (size_t i = 0; i < wanted.size(); ++i) {
    facts.push_back(wanted[i].fact);
    place[wanted[i].fact] = i;
  }
  if (facts.empty()) return std::vector<KvRow>();  // an empty list would mean all of them
  TRY_ASSIGN(std::vector<KvRow> rows, catalog_.UsableRecords(ns, model, facts));
  std::erase_if(rows, [&](const KvRow& row) {
    return row.content_version != wanted[place.at(row.fact)].version ||
           row.n_tokens != wanted[place.at(row.fact)].tokens.size();
  });
  of.clear();
  for (const KvRow& row : rows) of.push_back(place.at(row.fact));
  return rows;
}

Result<std::vector<bool>> KvVault::Has(NamespaceId ns, const ModelKey& model, std::span<const WantedRecord> wanted) {
  std::vector<size_t> of;
  TRY_ASSIGN(const std::vector<KvRow> rows, RowsOf(ns, model, wanted, of));
  std::vector<bool> has(wanted.size());
  for (const size_t i : of) has[i] = true;
  return has;
}

Status KvVault::DropDamaged(std::span<const RecordSeq> records) {
  TRY_ASSIGN(const Change change, catalog_.DropRecords(records, true));
  if (!change.dead.empty())  // a record that was destroyed while it was read is none
    spdlog::warn("{} KV records are damaged: their facts are text until they are encoded again", change.dead.size());
  return Destroy(change.dead);
}

Result<SegmentLocation> KvVault::Append(NamespaceId ns, RecordSeq record, const EncodedRecord& encoded) {
  for (;;) {
    auto location = store_->Append(record, encoded.pieces());
    if (location || location.error().code != ErrorCode::kNoSpace) return location;
    TRY_ASSIGN(const uint64_t found, Evict(std::max<uint64_t>(encoded.bytes(), disk_bytes_ / kEvictShare), ns));
    if (found == 0)
      return Fail(ErrorCode::kNoSpace, fmt::format("{}; the KV budget is {} MiB: raise --kv-budget or free disk space",
                                                   location.error().message, disk_bytes_ >> 20));
  }
}

Status KvVault::FitNameSpace(NamespaceId ns) {
  if (name_space_bytes_ >= disk_bytes_) return {};
  TRY_ASSIGN(const NamespaceInfo info, catalog_.GetNamespace(ns));
  if (info.kv_bytes <= name_space_bytes_) return {};
  TRY(EvictFrom(ns, info.kv_bytes - name_space_bytes_));
  return {};
}

// Appends the records and adds their rows, whose bytes are durable on return.
Status KvVault::AppendAll(NamespaceId ns, RecordSeq first, std::span<const NewRecord> records,
                          std::vector<KvRow>& rows) {
  for (size_t i = 0; i < records.size(); ++i) {
    TRY_ASSIGN(const EncodedRecord encoded, Encode(*records[i].record));
    TRY_ASSIGN(const SegmentLocation location, Append(ns, first + i, encoded));
    const RecordKey& key = encoded.key;
    rows.push_back({.record = first + i,
                    .name_space = ns,
                    .fact = records[i].fact,
                    .content_version = key.content_version,
                    .model_key = key.model_key,
                    .encoding = key.encoding,
                    .calibration_id = key.calibration_id,
                    .window_digest = key.window_digest,
                    .n_tokens = records[i].record->tokens(),
                    .location = ToRow(location),
                    .saw = records[i].saw});
  }
  return store_->Sync();
}

Result<std::vector<bool>> KvVault::Put(NamespaceId ns, std::span<const NewRecord> records) {
  if (records.empty()) return std::vector<bool>();
  PutRecordsResult put;
  {
    const std::shared_lock lock(put_mutex_);
    TRY_ASSIGN(const RecordSeq first, catalog_.ReserveRecords(records.size()));
    std::vector<KvRow> rows;
    Status appended = AppendAll(ns, first, records, rows);
    if (appended) {
      auto stored = catalog_.PutRecords(rows);
      if (stored) put = *std::move(stored);
      if (!stored) appended = tl::unexpected(std::move(stored).error());
    }
    if (!appended) {
      // No row names these bytes: nobody else would destroy them before the next Open.
      std::vector<StoredRecord> orphans;
      for (const KvRow& row : rows) orphans.push_back({row.record, StoreLocation(row.location)});
      (void)store_->Destroy(orphans);
      return tl::unexpected(std::move(appended).error());
    }
  }
  TRY(Destroy(put.dead));
  TRY(FitNameSpace(ns));
  return put.stored;
}

Status KvVault::Destroy(std::span<const DeadRecord> dead) {
  if (dead.empty()) return {};
  std::vector<StoredRecord> stored;
  std::vector<uint64_t> entries;
  for (const DeadRecord& each : dead) {
    hot_->Evict(each.record);
    stored.push_back({each.record, StoreLocation(each.location)});
    entries.push_back(each.erase_id);
  }
  TRY(store_->Destroy(stored));
  return catalog_.ForgetErased(entries);
}

Status KvVault::DestroyPending() {
  for (;;) {
    TRY_ASSIGN(const std::vector<DeadRecord> dead, catalog_.PendingErase(limits::kListPage));
    if (dead.empty()) return {};
    TRY(Destroy(dead));
  }
}

Result<uint64_t> KvVault::EvictFrom(NamespaceId ns, uint64_t bytes) {
  uint64_t found = 0;
  while (found < bytes) {
    TRY_ASSIGN(const std::vector<KvRow> rows, catalog_.RecordsOf(ns, limits::kListPage));
    std::vector<RecordSeq> drop;
    for (size_t i = 0; i < rows.size() && found < bytes; ++i) {
      drop.push_back(rows[i].record);
      found += rows[i].location.bytes;
    }
    if (drop.empty()) break;
    TRY_ASSIGN(const Change change, catalog_.DropRecords(drop, false));
    TRY(Destroy(change.dead));
  }
  return found;
}

Result<uint64_t> KvVault::Evict(uint64_t bytes, NamespaceId last) {
  TRY_ASSIGN(const std::vector<NamespaceInfo> candidates, catalog_.EvictionCandidates(limits::kListPage));
  uint64_t found = 0;
  for (const NamespaceInfo& candidate : candidates) {
    if (found >= bytes) return found;
    if (candidate.id == last) continue;
    TRY_ASSIGN(const uint64_t more, EvictFrom(candidate.id, bytes - found));
    found += more;
  }
  if (found >= bytes) return found;
  TRY_ASSIGN(const uint64_t more, EvictFrom(last, bytes - found));
  return found + more;
}

Result<CompactionReport> KvVault::Compact() {
  const std::unique_lock lock(put_mutex_);
  const MoveRecords move = [&](std::span<const RecordMove> moves) -> Result<std::vector<StoredRecord>> {
    std::vector<std::pair<RecordSeq, KvLocation>> to;
    for (const RecordMove& each : moves) to.emplace_back(each.record, ToRow(each.to));
    TRY_ASSIGN(const std::vector<DeadRecord> dead, catalog_.MoveRecords(to));
    std::vector<StoredRecord> died;
    for (const DeadRecord& each : dead) died.push_back({each.record, StoreLocation(each.location)});
    return died;
  };
  TRY_ASSIGN(CompactionReport report, store_->Compact(0.5, move));
  std::vector<RecordSeq> damaged;
  for (const StoredRecord& each : report.damaged) damaged.push_back(each.record);
  if (!damaged.empty()) TRY(DropDamaged(damaged));
  TRY(DestroyPending());  // what died while it was moved
  return report;
}

Result<std::vector<DamagedRange>> KvVault::Verify() {
  TRY_ASSIGN(const std::vector<DamagedRange> damaged, store_->Verify());
  if (damaged.empty()) return damaged;
  std::vector<RecordSeq> hit;
  TRY(catalog_.ScanRecords([&](const KvRow& row) {
    const KvLocation& at = row.location;
    const bool overlaps = std::any_of(damaged.begin(), damaged.end(), [&](const DamagedRange& range) {
      return range.segment == at.segment && range.offset < at.offset + at.bytes + kEntryRoom &&
             at.offset < range.offset + range.bytes;
    });
    if (overlaps) hit.push_back(row.record);
    return true;
  }));
  if (!hit.empty()) TRY(DropDamaged(hit));
  return damaged;
}

}  // namespace inferscale
