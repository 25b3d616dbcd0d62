// KV records of the durable memory: rows in the catalog say which may be used, bytes are in the segment store, those in
// use lately in the hot set. Records are derived data: whatever is wrong with one, it is dropped, and its fact is text
// until it is encoded again.
#pragma once

#include <atomic>
#include <filesystem>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "catalog/catalog.h"
#include "core/kv_record.h"
#include "memory/kv_calibrations.h"
#include "store/hot_set.h"
#include "store/record_codec.h"
#include "store/segment_store.h"

namespace inferscale {

struct KvVaultOptions {
  std::filesystem::path folder;              // of the segments; made when it is not there
  std::filesystem::path calibration_folder;  // made when there is one to keep
  // How records are stored. int8 and int4 begin once a model's exact records have limits::kCalibrationTokensMin tokens
  // to make its calibration from; what was stored before stays exact.
  KvEncoding encoding = KvEncoding::kF16;
  uint64_t disk_bytes = 0;        // budget of all segments; 0: DefaultDiskBudget
  uint64_t name_space_bytes = 0;  // budget of one namespace's usable records; 0: that of the disk
  uint64_t hot_bytes = 0;         // budget in memory; 0: limits::kHotBytesDefault
  FileOps* files = nullptr;       // outlives the vault; null: the system's
  bool io_uring = true;           // false: reads by pread, through `files`
};

// 10 GiB, or a tenth of the space that is free there if that is less.
uint64_t DefaultDiskBudget(const std::filesystem::path& folder);

// A fact whose record is wanted, as a prompt would use it.
struct WantedRecord {
  FactSeq fact = 0;
  std::string_view id;
  uint32_t version = 1;
  std::span<const TokenId> tokens;
};

struct NewRecord {
  FactSeq fact = 0;
  RecordHandle record;
  std::vector<Seen> saw;
};

// A row's place as the store names it.
inline SegmentLocation StoreLocation(const KvLocation& at) { return {at.segment, at.offset, at.bytes}; }

struct VaultOpening {
  uint64_t orphans = 0;  // records in the store that the catalog does not use: destroyed
  uint64_t lost = 0;     // rows whose bytes are not there: dropped, their facts are queued
  uint64_t damaged_ranges = 0;
};

// Since Open.
struct QuantisedStats {
  uint64_t records = 0;  // stored as int8 or int4
  uint64_t exact = 0;    // stored as f16 although they should not be: no calibration yet, or it does not fit them
  uint64_t key_values = 0;
  uint64_t clipped = 0;  // of them
};

// Thread-safe. Lives no longer than the catalog.
class KvVault {
 public:
  // Opens the store, compares it with the catalog and finishes the erasures that a crash interrupted.
  static Result<std::unique_ptr<KvVault>> Open(const KvVaultOptions& options, Catalog& catalog);

  // [wanted] Records as f16, which stay as long as the handles live; the handles must be gone before the vault is. Null
  // where there is none that may be used: not encoded, stale, of another model, other tokens, evicted, or damaged or
  // without its calibration (then its fact is queued). An error is the catalog's.
  Result<std::vector<RecordHandle>> Load(const NamespaceInfo& ns, const ModelKey& model, const KvShape& shape,
                                         std::span<const WantedRecord> wanted);
  // [wanted] Which of them Load would find, by their rows.
  Result<std::vector<bool>> Has(NamespaceId ns, const ModelKey& model, std::span<const WantedRecord> wanted);

  // Makes exact records durable, in the vault's encoding, then usable. Makes room, from the namespaces that were not
  // used the longest, then from this one's oldest; drops this one's oldest when it is over its own budget. [records]
  // false: its fact, or what it saw, changed meanwhile. kNoSpace: no room could be made.
  Result<std::vector<bool>> Put(NamespaceId ns, std::span<const NewRecord> records);

  // The bytes of dead records are gone from memory (a pinned one's: when its pin goes) and from the files; the erase
  // list forgets them.
  Status Destroy(std::span<const DeadRecord> dead);
  // The same for all that is on the erase list.
  Status DestroyPending();

  // Drops at least `bytes` of usable records, if there are as many: of the namespaces least recently used first, `last`
  // at the end, and in each the oldest first. Returns how many bytes it found. Their facts are text and not queued.
  Result<uint64_t> Evict(uint64_t bytes, NamespaceId last);
  // Rewrites segments that are less than half live.
  Result<CompactionReport> Compact();
  // Reads every byte. Damaged records are dropped, their facts queued; what was found wrong.
  Result<std::vector<DamagedRange>> Verify();

  const VaultOpening& opening() const { return opening_; }
  QuantisedStats quantised_stats() const;
  SegmentStoreStats store_stats() const { return store_->stats(); }
  HotSetStats hot_stats() const { return hot_->stats(); }
  uint64_t disk_budget() const { return disk_bytes_; }
  uint64_t name_space_budget() const { return name_space_bytes_; }
  KvEncoding encoding() const { return encoding_; }

 private:
  KvVault(const KvVaultOptions& options, Catalog& catalog)
      : catalog_(catalog), encoding_(options.encoding), calibrations_(options.calibration_folder) {}
  Status Reconcile(const OpenReport& report);
  Result<std::vector<KvRow>> RowsOf(NamespaceId ns, const ModelKey& model, std::span<const WantedRecord> wanted,
                                    std::vector<size_t>& of);
  struct Reading;
  Result<Reading> ReadRows(std::span<const KvRow> rows);
  Result<std::vector<size_t>> LoadOnce(const NamespaceInfo& ns, const ModelKey& model, const KvShape& shape,
                                       std::span<const WantedRecord> wanted, std::vector<RecordHandle>& loaded,
                                       bool moved_is_lost);
  Status DropDamaged(std::span<const RecordSeq> records);
  Status AppendAll(NamespaceId ns, RecordSeq first, std::span<const NewRecord> records, std::vector<KvRow>& rows);
  Result<SegmentLocation> Append(NamespaceId ns, RecordSeq record, const EncodedRecord& encoded);
  Result<EncodedRecord> Encode(const KvRecord& record);
  Result<CalibrationHandle> CalibrationFor(const ModelKey& model, const KvShape& shape);
  Result<CalibrationHandle> MakeCalibration(const ModelKey& model, const KvShape& shape);
  Result<uint64_t> EvictFrom(NamespaceId ns, uint64_t bytes);
  Status FitNameSpace(NamespaceId ns);

  Catalog& catalog_;
  std::unique_ptr<SegmentStore> store_;
  std::unique_ptr<HotSet> hot_;
  uint64_t disk_bytes_ = 0;
  uint64_t name_space_bytes_ = 0;
  KvEncoding encoding_ = KvEncoding::kF16;
  KvCalibrations calibrations_;
  std::mutex calibrate_mutex_;                              // guards the next, and is held while one is made
  std::unordered_map<std::string, uint64_t> exact_tokens_;  // by model key: about how many a calibration could have
  std::atomic<uint64_t> quantised_ = 0, exact_ = 0, key_values_ = 0, clipped_ = 0;
  VaultOpening opening_;
  // Held shared from a record's append until its row is there, alone by Compact, which asks the catalog what is alive.
  std::shared_mutex put_mutex_;
};

}  // namespace inferscale
