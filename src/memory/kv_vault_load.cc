// The vault: records for a prompt.
#include <algorithm>
#include <optional>
#include <unordered_set>

#include "memory/kv_vault.h"

namespace inferscale {

namespace {

constexpr int kLoadAttempts = 3;  // of a record that a compaction moves meanwhile

bool IsWanted(const KvRecord& record, const KvRow& row, const NamespaceInfo& ns, const KvShape& shape,
              const WantedRecord& wanted) {
  const RecordKey& key = record.key;
  return key.name_space == ns.name && key.fact_id == wanted.id && key.content_version == wanted.version &&
         std::equal(key.token_ids.begin(), key.token_ids.end(), wanted.tokens.begin(), wanted.tokens.end()) &&
         key.model_key == row.model_key && key.encoding == row.encoding && key.window_digest == row.window_digest &&
         record.payload.shape() == shape;
}

}  // namespace

struct KvVault::Reading {
  std::vector<RecordHandle> handles;  // [rows] null: see the others
  std::vector<RecordSeq> damaged;
  std::vector<size_t> moved;  // places in rows: their bytes are not where the row said
  std::vector<size_t> read;   // of those that came from the disk into the hot set
};

Result<KvVault::Reading> KvVault::ReadRows(std::span<const KvRow> rows) {
  Reading reading;
  reading.handles.resize(rows.size());
  std::vector<CalibrationHandle> calibrations(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    if (IsQuantised(rows[i].encoding)) {
      TRY_ASSIGN(calibrations[i], calibrations_.Find(rows[i].model_key, rows[i].encoding));
    }
  const auto view = [&](size_t i, std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    if (auto record = DecodeRecord(bytes, std::move(owner), calibrations[i].get()))
      reading.handles[i] = std::make_shared<const KvRecord>(std::move(*record));
    else
      reading.damaged.push_back(rows[i].record);
  };
  const auto view_pin = [&](size_t i, HotPin pin) {
    auto owner = std::make_shared<const HotPin>(std::move(pin));
    view(i, owner->bytes(), owner);
  };
  std::vector<ReadRequest> requests;
  std::vector<std::optional<HotFill>> fills;
  std::vector<size_t> of;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (auto pin = hot_->Find(rows[i].record)) {
      view_pin(i, std::move(*pin));
      continue;
    }
    auto fill = hot_->Reserve(rows[i].record, rows[i].content_version, rows[i].location.bytes);
    fills.push_back(fill ? std::optional<HotFill>(std::move(*fill)) : std::nullopt);
    requests.push_back({rows[i].record, StoreLocation(rows[i].location),
                        fills.back() ? fills.back()->bytes() : std::span<std::byte>()});
    of.push_back(i);
  }
  std::vector<Result<RecordBytes>> results = store_->ReadBatch(requests);
  for (size_t r = 0; r < results.size(); ++r) {
    if (!results[r]) {
      const ErrorCode code = results[r].error().code;
      if (code == ErrorCode::kCorrupt) reading.damaged.push_back(rows[of[r]].record);
      if (code == ErrorCode::kNotFound) reading.moved.push_back(of[r]);
    } else if (fills[r]) {
      view_pin(of[r], fills[r]->Publish());
      reading.read.push_back(of[r]);
    } else {
      auto owner = std::make_shared<const RecordBytes>(std::move(*results[r]));
      view(of[r], owner->bytes(), owner);
    }
  }
  return reading;
}

// Sets `loaded` [wanted] where it can. Returns places in wanted of records that were not where their rows said.
Result<std::vector<size_t>> KvVault::LoadOnce(const NamespaceInfo& ns, const ModelKey& model, const KvShape& shape,
                                              std::span<const WantedRecord> wanted, std::vector<RecordHandle>& loaded,
                                              bool moved_is_lost) {
  std::vector<size_t> of;
  TRY_ASSIGN(const std::vector<KvRow> rows, RowsOf(ns.id, model, wanted, of));
  TRY_ASSIGN(Reading reading, ReadRows(rows));
  // A record that died while it was read must not stay in memory: whoever destroyed it looked there before we put it.
  if (!reading.read.empty()) {
    std::vector<WantedRecord> again;
    for (const size_t i : reading.read) again.push_back(wanted[of[i]]);
    std::vector<size_t> unused;
    TRY_ASSIGN(const std::vector<KvRow> now, RowsOf(ns.id, model, again, unused));
    std::unordered_set<RecordSeq> alive;
    for (const KvRow& row : now) alive.insert(row.record);
    for (const size_t i : reading.read)
      if (!alive.contains(rows[i].record)) {
        hot_->Evict(rows[i].record);
        reading.handles[i] = nullptr;
      }
  }
  for (size_t i = 0; i < rows.size(); ++i) {
    if (reading.handles[i] == nullptr) continue;
    if (IsWanted(*reading.handles[i], rows[i], ns, shape, wanted[of[i]]))
      loaded[of[i]] = std::move(reading.handles[i]);
    else
      reading.damaged.push_back(rows[i].record);
  }
  std::vector<size_t> moved;
  for (const size_t i : reading.moved) {
    if (moved_is_lost) reading.damaged.push_back(rows[i].record);
    moved.push_back(of[i]);
  }
  if (!reading.damaged.empty()) TRY(DropDamaged(reading.damaged));
  return moved;
}

Result<std::vector<RecordHandle>> KvVault::Load(const NamespaceInfo& ns, const ModelKey& model, const KvShape& shape,
                                                std::span<const WantedRecord> wanted) {
  std::vector<RecordHandle> loaded(wanted.size());
  TRY_ASSIGN(std::vector<size_t> left, LoadOnce(ns, model, shape, wanted, loaded, false));
  for (int attempt = 2; !left.empty() && attempt <= kLoadAttempts; ++attempt) {
    std::vector<WantedRecord> some;
    for (const size_t i : left) some.push_back(wanted[i]);
    std::vector<RecordHandle> handles(some.size());
    TRY_ASSIGN(const std::vector<size_t> moved, LoadOnce(ns, model, shape, some, handles, attempt == kLoadAttempts));
    std::vector<size_t> still;
    for (const size_t i : moved) still.push_back(left[i]);
    for (size_t i = 0; i < some.size(); ++i) loaded[left[i]] = std::move(handles[i]);
    left = std::move(still);
  }
  return loaded;
}

}  // namespace inferscale
