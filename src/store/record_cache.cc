#include "store/record_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "base/assert.h"
#include "base/file.h"
#include "base/limits.h"
#include "store/record_folder.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

constexpr size_t kMessages = 20;  // a folder of damaged files is told in a few lines and a number

int ThreadsOf(const RecordCacheOptions& options) {
  // Reading from the page cache is memory-bound: more than a few threads gain nothing.
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  return std::clamp(options.threads > 0 ? options.threads : cores, 1, 8);
}

bool HasElements(const KvShape& shape) { return shape.ElementsPerToken() > 0; }

tl::unexpected<Error> NoElements() {
  return Fail(ErrorCode::kInvalidArgument, "record cache: the shape has no elements");
}

// Marks a file as used now, for eviction. Failing (a read-only folder) is harmless.
void Touch(const fs::path& path) { (void)::utimensat(AT_FDCWD, path.c_str(), nullptr, 0); }

}  // namespace

RecordCache::RecordCache(fs::path folder, RecordCacheOptions options)
    : folder_(std::move(folder)), options_(options), pool_(ThreadsOf(options)), recent_(options.recent_bytes) {}

Result<std::unique_ptr<RecordCache>> RecordCache::Open(const fs::path& folder, RecordCacheOptions options) {
  if (folder.empty()) return Fail(ErrorCode::kInvalidArgument, "record cache: the folder's path is empty");
  std::unique_ptr<RecordCache> cache(new RecordCache(folder, options));  // private constructor
  if (const Status made = MakeDirectories(folder); !made)
    cache->StopStoring(made.error().message);
  else if (::access(folder.c_str(), W_OK | X_OK) != 0)
    cache->StopStoring(ErrnoError(errno, "write to", folder).message);
  return cache;
}

fs::path RecordCache::PathOf(const RecordId& id) const {
  const std::string hex = id.Hex();
  return folder_ / hex.substr(0, 2) / (hex + ".kv");
}

RecordHandle RecordCache::FindInMemory(const RecordId& id) const {
  std::lock_guard lock(mutex_);
  const auto found = memory_.find(id);
  return found == memory_.end() ? nullptr : found->second;
}

// Counts and reports a file that cannot be used, and removes it when its content is the reason.
RecordCache::Outcome RecordCache::Discard(const fs::path& path, const Error& error) {
  std::error_code ec;
  const fs::file_type type = fs::symlink_status(path, ec).type();
  if (type == fs::file_type::not_found) return Outcome::kMiss;  // also below something that is no folder
  const bool is_foreign = error.code == ErrorCode::kMismatch;
  const bool is_content = is_foreign || error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kTooLarge ||
                          error.code == ErrorCode::kVersionUnsupported;
  std::lock_guard lock(mutex_);
  if (!is_content) {
    Tell("a cached record cannot be read and is made again: " + error.message);
    return Outcome::kMiss;
  }
  const bool removed = type == fs::file_type::regular && fs::remove(path, ec);
  Tell(path.string() + " cannot be used" + (removed ? ", is removed and made again: " : "; remove it: ") +
       error.message);
  return is_foreign ? Outcome::kForeign : Outcome::kDamaged;
}

RecordHandle RecordCache::FindRecent(const RecordId& id, const KvShape& shape) {
  std::lock_guard lock(mutex_);
  RecordHandle handle = recent_.Find(id);
  if (handle == nullptr || handle->payload.shape() != shape) return nullptr;
  ++stats_.hits;
  return handle;
}

RecordHandle RecordCache::Load(const RecordKey& key, const KvShape& shape, bool recent) {
  const RecordId id = key.Id();
  if (recent)
    if (RecordHandle handle = FindRecent(id, shape)) return handle;
  RecordHandle handle = FindInMemory(id);
  Outcome outcome = Outcome::kHit;
  if (handle == nullptr) {
    const fs::path path = PathOf(id);
    Result<KvRecord> read = ReadRecordFile(path);
    if (read && (read->key != key || read->payload.shape() != shape))
      read = Fail(ErrorCode::kMismatch, "KV record: it belongs to another model, fact or window");
    if (read) {
      Touch(path);
      handle = std::make_shared<const KvRecord>(std::move(*read));
    } else {
      outcome = Discard(path, read.error());
    }
  }
  std::lock_guard lock(mutex_);
  stats_.hits += outcome == Outcome::kHit;
  stats_.misses += outcome != Outcome::kHit;
  stats_.damaged += outcome == Outcome::kDamaged;
  stats_.foreign += outcome == Outcome::kForeign;
  if (handle == nullptr) return handle;
  stats_.bytes_read += handle->payload.bytes();
  recent_.Keep(id, handle);
  return handle;
}

Result<RecordHandle> RecordCache::Find(const RecordKey& key, const KvShape& shape) {
  if (!HasElements(shape)) return NoElements();
  return Load(key, shape, true);
}

Result<std::vector<RecordHandle>> RecordCache::FindAll(std::span<const RecordKey> keys, const KvShape& shape) {
  if (!HasElements(shape)) return NoElements();
  std::vector<RecordHandle> handles(keys.size());
  pool_.ParallelFor(keys.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) handles[i] = Load(keys[i], shape, true);
  });
  return handles;
}

Result<std::vector<bool>> RecordCache::Verify(std::span<const RecordKey> keys, const KvShape& shape) {
  if (!HasElements(shape)) return NoElements();
  std::vector<uint8_t> whole(keys.size());  // not vector<bool>: threads write neighbours
  pool_.ParallelFor(keys.size(), [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) whole[i] = Load(keys[i], shape, false) != nullptr;
  });
  return std::vector<bool>(whole.begin(), whole.end());
}

bool RecordCache::Contains(const RecordKey& key) {
  const RecordId id = key.Id();
  if (FindInMemory(id) != nullptr) return true;
  const fs::path path = PathOf(id);
  Result<RecordInfo> info = ReadRecordInfo(path);
  if (info && info->key != key)
    info = Fail(ErrorCode::kMismatch, "KV record: it belongs to another model, fact or window");
  if (info) return true;
  const Outcome outcome = Discard(path, info.error());
  std::lock_guard lock(mutex_);
  stats_.damaged += outcome == Outcome::kDamaged;
  stats_.foreign += outcome == Outcome::kForeign;
  return false;
}

Status RecordCache::Put(const RecordHandle& record) {
  INFERSCALE_ASSERT(record != nullptr);
  const RecordId id = record->key.Id();
  const uint64_t bytes = record->payload.bytes();
  if (read_only_reason().empty()) {
    const fs::path path = PathOf(id);
    Status written = MakeDirectories(path.parent_path());
    if (written) written = WriteRecordFile(path, *record, Durability::kFast);
    if (written) {
      {
        std::lock_guard lock(mutex_);
        ++stats_.stored;
        stats_.bytes_written += bytes;
        recent_.Keep(id, record);
      }
      MakeRoom(bytes);
      return {};
    }
    if (written.error().code == ErrorCode::kInvalidArgument) return written;
    StopStoring(written.error().message);
  }
  KeepInMemory(record);
  return {};
}

void RecordCache::KeepInMemory(const RecordHandle& record) {
  std::lock_guard lock(mutex_);
  if (memory_bytes_ + record->payload.bytes() > limits::kRecordMemoryBytes) {
    Tell("there is no room for more records in memory: their facts go in as text");
    return;
  }
  if (!memory_.emplace(record->key.Id(), record).second) return;
  memory_bytes_ += record->payload.bytes();
  ++stats_.in_memory;
}

// Once: a full disk is not tried again by every record of a run.
void RecordCache::StopStoring(std::string reason) {
  std::lock_guard lock(mutex_);
  if (!read_only_reason_.empty()) return;
  Tell("KV records are not stored and the next run makes them again: " + reason);
  read_only_reason_ = std::move(reason);
  INFERSCALE_ASSERT(!read_only_reason_.empty());
}

void RecordCache::Tell(std::string message) {
  if (std::find(messages_.begin(), messages_.end(), message) != messages_.end()) return;
  if (messages_.size() < kMessages)
    messages_.push_back(std::move(message));
  else
    ++untold_;
}

// After a record of that many bytes was written. The folder is counted once, and again before evicting, since other
// processes may have changed it; evicting to nine tenths makes the next count a tenth of the budget away.
void RecordCache::MakeRoom(uint64_t bytes) {
  std::lock_guard room(room_mutex_);
  if (budget_bytes_ == 0) {
    used_bytes_ = SumBytes(ListRecordFiles(folder_));
    const uint64_t wanted =
        options_.budget_bytes > 0 ? options_.budget_bytes : DefaultRecordBudget(folder_, used_bytes_);
    budget_bytes_ = std::max<uint64_t>(wanted, 1);
  } else {
    used_bytes_ += bytes;
  }
  if (used_bytes_ <= budget_bytes_) return;
  std::vector<RecordFile> files = ListRecordFiles(folder_);
  const size_t evicted = EvictOldest(files, budget_bytes_ / 10 * 9);
  used_bytes_ = SumBytes(files);
  std::lock_guard lock(mutex_);
  stats_.evicted += evicted;
  if (evicted > 0)
    Tell("the record cache is full (" + std::to_string(budget_bytes_ >> 20) +
         " MiB): records not used for the longest time are deleted; if facts are encoded at every start, free disk "
         "space "
         "or choose another --cache-dir");
}

std::string RecordCache::read_only_reason() const {
  std::lock_guard lock(mutex_);
  return read_only_reason_;
}

RecordCacheStats RecordCache::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

std::vector<std::string> RecordCache::TakeMessages() {
  std::lock_guard lock(mutex_);
  if (untold_ > 0) messages_.push_back("and " + std::to_string(untold_) + " more messages of this kind");
  untold_ = 0;
  return std::exchange(messages_, {});
}

}  // namespace inferscale
