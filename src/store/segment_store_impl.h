// The parts of a segment store. segment_store.h is what others use.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <vector>

#include "store/batch_reader.h"
#include "store/segment.h"
#include "store/segment_store.h"

namespace inferscale {

// Locks are taken in the order compact_mutex_, sync_mutex_, write_mutex_, map_mutex_.
class SegmentStoreImpl final : public SegmentStore {
 public:
  explicit SegmentStoreImpl(const SegmentStoreOptions& options);
  Status Load(OpenReport& report);

  Result<SegmentLocation> Append(uint64_t record, std::span<const std::string_view> pieces) override;
  Status Sync() override;
  std::vector<Result<RecordBytes>> ReadBatch(std::span<const ReadRequest> requests) override;
  Status Destroy(std::span<const StoredRecord> records) override;
  Result<CompactionReport> Compact(double live_share, const MoveRecords& move) override;
  Result<std::vector<DamagedRange>> Verify() override;
  SegmentStoreStats stats() const override;

 private:
  using SegmentPtr = std::shared_ptr<Segment>;
  struct Batch;  // of reads under way

  // Open, before there are other threads.
  Status LoadFile(uint64_t number, bool newest, OpenReport& report);
  Status RepairNewest(Segment& segment, const SegmentScan& scan, OpenReport& report);
  Status DropUnreadable(uint64_t number, const Error& error, bool newest, OpenReport& report);

  SegmentPtr Find(uint64_t number) const;
  std::vector<SegmentPtr> All() const;

  // With write_mutex_ held.
  enum class Budget : uint8_t { kEnforced, kIgnored };
  Result<SegmentLocation> AppendLocked(uint64_t record, std::span<const std::string_view> pieces, Budget budget);
  Status MakeRoom(uint64_t extent, Budget budget);  // a segment to write to, within the budget
  uint64_t AllocatedLocked() const;
  Status Remove(const SegmentPtr& segment);

  Status CompactSegment(const SegmentPtr& segment, const MoveRecords& move, CompactionReport& report);
  Status CopyLive(const SegmentPtr& segment, std::vector<RecordMove>& moves, CompactionReport& report);

  // Constant after construction.
  const SegmentStoreOptions options_;
  FileOps& files_;
  BatchReader reader_;

  std::mutex compact_mutex_;

  std::mutex sync_mutex_;
  uint64_t synced_ = 0;  // guarded by sync_mutex_: of appended_, how many are known to be durable

  mutable std::mutex write_mutex_;  // guards all segments' changing parts and what follows
  SegmentPtr active_;               // the one that is written; null: the next append makes one
  uint64_t next_number_ = 1;
  uint64_t appended_ = 0;
  uint64_t destroyed_ = 0;
  std::optional<Error> failed_;  // a sync failed: no more appends

  mutable std::shared_mutex map_mutex_;
  std::map<uint64_t, SegmentPtr> segments_;  // by number. Changed with write_mutex_ held too
};

}  // namespace inferscale
