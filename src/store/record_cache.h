// A folder of KV record files, found by record key. Several processes may share one: files are named by what they hold
// and appear whole or not at all, so no lock is needed.
//
//   <folder>/ab/abcdef….kv     256 folders: 10 GiB of 700 KB records are 15,000 files, about 60 in each
//
// The cache holds derived data only: whatever is wrong with it costs time, never an answer. A damaged or foreign file
// is removed, counted and reported, and its record made again. Where nothing can be stored (folder not writable, disk
// full) new records are kept in memory for this process, and a message says so.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "core/kv_record.h"
#include "core/kv_shape.h"
#include "store/recent_records.h"

namespace inferscale {

struct RecordCacheOptions {
  uint64_t budget_bytes = 0;  // 0: limits::kRecordCacheBytes or a tenth of the free space, the smaller
  uint64_t recent_bytes = 0;  // memory for records that were stored or read: the next time they come from there
  int threads = 0;            // that read at once; 0: one per core
};

struct RecordCacheStats {
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t damaged = 0;  // files that did not pass their checks
  uint64_t foreign = 0;  // files with another record (other model, other tokens) under this one's name
  uint64_t stored = 0;
  uint64_t in_memory = 0;  // records that could not be stored
  uint64_t evicted = 0;
  uint64_t bytes_read = 0;
  uint64_t bytes_written = 0;
};

// Thread-safe.
class RecordCache {
 public:
  // Makes the folder when it is not there. Where that fails or nothing can be written, the cache is read-only and
  // read_only_reason() says why; kInvalidArgument only for an empty path.
  static Result<std::unique_ptr<RecordCache>> Open(const std::filesystem::path& folder,
                                                   RecordCacheOptions options = {});

  // The record, or null: not there, or it was there and cannot be used (see above). Reading it touches the file:
  // eviction takes what was not read for the longest time. kInvalidArgument: a shape without elements.
  Result<RecordHandle> Find(const RecordKey& key, const KvShape& shape);
  // The same for many, read in parallel. [keys.size()]
  Result<std::vector<RecordHandle>> FindAll(std::span<const RecordKey> keys, const KvShape& shape);

  // Whether the record is there, by its file's checked header; only Find looks at all of it.
  bool Contains(const RecordKey& key);
  // Which records are in files and whole, payload checksums included, read in parallel. [keys.size()]
  Result<std::vector<bool>> Verify(std::span<const RecordKey> keys, const KvShape& shape);

  // Stores a record (not null), or keeps it in memory when it cannot be stored. kInvalidArgument: not one that can be.
  Status Put(const RecordHandle& record);

  // Empty while records are stored.
  std::string read_only_reason() const;
  RecordCacheStats stats() const;
  // What people should be told since the last call: damaged files, records that could not be stored.
  std::vector<std::string> TakeMessages();

  std::filesystem::path PathOf(const RecordId& id) const;

 private:
  enum class Outcome : uint8_t { kHit, kMiss, kDamaged, kForeign };

  RecordCache(std::filesystem::path folder, RecordCacheOptions options);
  // recent: whether a record that is in memory since it was read is good enough.
  RecordHandle Load(const RecordKey& key, const KvShape& shape, bool recent);
  RecordHandle FindInMemory(const RecordId& id) const;
  RecordHandle FindRecent(const RecordId& id, const KvShape& shape);
  Outcome Discard(const std::filesystem::path& path, const Error& error);
  void KeepInMemory(const RecordHandle& record);
  void StopStoring(std::string reason);
  void Tell(std::string message);  // mutex_ held
  void MakeRoom(uint64_t bytes);

  const std::filesystem::path folder_;
  const RecordCacheOptions options_;
  ThreadPool pool_;

  mutable std::mutex mutex_;  // guards all that follows
  std::string read_only_reason_;
  RecordCacheStats stats_;
  std::vector<std::string> messages_;
  size_t untold_ = 0;  // messages beyond what is kept
  std::unordered_map<RecordId, RecordHandle> memory_;
  uint64_t memory_bytes_ = 0;
  RecentRecords recent_;

  std::mutex room_mutex_;  // guards the two below; taken without mutex_ held
  uint64_t used_bytes_ = 0;
  uint64_t budget_bytes_ = 0;  // 0: not known yet, the folder was not counted
};

}  // namespace inferscale
