#include "store/segment_store.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/hash.h"
#include "store/segment_store_impl.h"

namespace inferscale {

Result<std::unique_ptr<SegmentStore>> SegmentStore::Open(const SegmentStoreOptions& options, OpenReport* report) {
  if (options.folder.empty()) return Fail(ErrorCode::kInvalidArgument, "KV store: no folder given");
  auto store = std::make_unique<SegmentStoreImpl>(options);
  OpenReport ignored;
  TRY(store->Load(report != nullptr ? *report : ignored));
  return store;
}

Result<RecordBytes> SegmentStore::Read(uint64_t record, const SegmentLocation& location) {
  const ReadRequest request{record, location, {}};
  return std::move(ReadBatch({&request, 1}).front());
}

SegmentStoreImpl::SegmentStoreImpl(const SegmentStoreOptions& options)
    : options_(options),
      files_(options.files != nullptr ? *options.files : PosixFiles()),
      reader_(options.threads, options.io_uring) {}

SegmentStoreImpl::SegmentPtr SegmentStoreImpl::Find(uint64_t number) const {
  std::shared_lock lock(map_mutex_);
  const auto found = segments_.find(number);
  return found != segments_.end() ? found->second : nullptr;
}

std::vector<SegmentStoreImpl::SegmentPtr> SegmentStoreImpl::All() const {
  std::shared_lock lock(map_mutex_);
  std::vector<SegmentPtr> all;
  for (const auto& [number, segment] : segments_) all.push_back(segment);
  return all;
}

uint64_t SegmentStoreImpl::AllocatedLocked() const {
  uint64_t sum = 0;
  for (const auto& [number, segment] : segments_) sum += segment->counts().allocated;
  return sum;
}

Status SegmentStoreImpl::MakeRoom(uint64_t extent, Budget budget) {
  const bool fits = active_ && !active_->broken() &&
                    (active_->end() + extent <= options_.segment_bytes ||
                     active_->end() == kSegmentBlockBytes);  // a record larger than a segment has one to itself
  const uint64_t more = extent + (fits ? 0 : kSegmentBlockBytes);
  if (budget == Budget::kEnforced && AllocatedLocked() + more > options_.budget_bytes)
    return Fail(ErrorCode::kNoSpace, "the KV store's budget of " + std::to_string(options_.budget_bytes) +
                                         " bytes is used up; raise it or evict records");
  if (fits) return {};
  if (segments_.size() >= limits::kSegments)
    return Fail(ErrorCode::kNoSpace, "the KV store has " + std::to_string(limits::kSegments) +
                                         " segments, the most it may; use larger ones");
  if (active_) {
    // Only the newest segment may hold what is not durable: Open verifies that one alone.
    if (const Status synced = active_->file().Sync(); !synced) {
      failed_ = synced.error();
      return synced;
    }
  }
  TRY_ASSIGN(SegmentPtr made, Segment::Create(files_, options_.folder, next_number_));
  active_ = made;
  std::unique_lock lock(map_mutex_);
  segments_.emplace(next_number_++, std::move(made));
  return {};
}

Result<SegmentLocation> SegmentStoreImpl::AppendLocked(uint64_t record, std::span<const std::string_view> pieces,
                                                       Budget budget) {
  uint64_t bytes = 0;
  for (const std::string_view piece : pieces) bytes += piece.size();
  if (bytes == 0) return Fail(ErrorCode::kInvalidArgument, "KV store: an empty record");
  if (bytes > limits::kRecordBytes)
    return Fail(ErrorCode::kTooLarge, "KV store: a record of " + std::to_string(bytes) + " bytes is beyond the limit");
  if (failed_) return tl::unexpected<Error>(*failed_);
  TRY(MakeRoom(ExtentBytes(bytes), budget));
  TRY_ASSIGN(const uint64_t offset, active_->Append(record, pieces, bytes, Checksum64(pieces)));
  ++appended_;
  return SegmentLocation{active_->header().number, offset, bytes};
}

Result<SegmentLocation> SegmentStoreImpl::Append(uint64_t record, std::span<const std::string_view> pieces) {
  std::lock_guard lock(write_mutex_);
  return AppendLocked(record, pieces, Budget::kEnforced);
}

Status SegmentStoreImpl::Sync() {
  uint64_t mine = 0;
  {
    std::lock_guard lock(write_mutex_);
    mine = appended_;
  }
  std::lock_guard sync_lock(sync_mutex_);
  uint64_t target = 0;
  SegmentPtr segment;
  {
    std::lock_guard lock(write_mutex_);
    if (failed_) return tl::unexpected<Error>(*failed_);
    if (synced_ >= mine) return {};  // by the one who had the lock before
    target = appended_;
    segment = active_;
  }
  // Earlier segments were synced when this one was begun.
  if (segment) {
    if (const Status synced = segment->file().Sync(); !synced) {
      std::lock_guard lock(write_mutex_);
      failed_ = synced.error();
      return synced;
    }
  }
  synced_ = target;
  return {};
}

Status SegmentStoreImpl::Remove(const SegmentPtr& segment) {
  INFERSCALE_ASSERT(segment != active_);
  {
    std::unique_lock lock(map_mutex_);
    segments_.erase(segment->header().number);
  }
  TRY(files_.Unlink(segment->path()));
  return files_.SyncFolder(options_.folder);
}

Status SegmentStoreImpl::Destroy(std::span<const StoredRecord> records) {
  std::lock_guard lock(write_mutex_);
  std::map<uint64_t, std::map<uint64_t, Segment::Erasure>> erasures;  // by segment and offset: each once
  for (const StoredRecord& stored : records) {
    const SegmentLocation& at = stored.location;
    const SegmentPtr segment = Find(at.segment);
    if (!segment || erasures[at.segment].contains(at.offset)) continue;
    TRY_ASSIGN(const auto erasure, segment->EraseContent(stored.record, at.offset, at.bytes));
    if (erasure) erasures[at.segment].emplace(at.offset, *erasure);
  }
  std::erase_if(erasures, [](const auto& of_segment) { return of_segment.second.empty(); });
  for (const auto& [number, of_segment] : erasures) TRY(Find(number)->file().Sync());
  for (const auto& [number, of_segment] : erasures) {
    const SegmentPtr segment = Find(number);
    for (const auto& [offset, erasure] : of_segment) TRY(segment->FinishErase(erasure));
    destroyed_ += of_segment.size();
    if (segment != active_ && segment->counts().records == 0) {
      TRY(Remove(segment));
    } else {
      TRY(segment->file().Sync());
    }
  }
  return {};
}

SegmentStoreStats SegmentStoreImpl::stats() const {
  std::lock_guard lock(write_mutex_);
  SegmentStoreStats stats{.segments = segments_.size(),
                          .allocated_bytes = AllocatedLocked(),
                          .destroyed = destroyed_,
                          .io_uring = reader_.uses_io_uring()};
  for (const auto& [number, segment] : segments_) {
    stats.records += segment->counts().records;
    stats.live_bytes += segment->counts().live_bytes;
    stats.file_bytes += segment->end();
  }
  return stats;
}

}  // namespace inferscale
