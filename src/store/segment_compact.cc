// Compaction and verification of a segment store.
#include <utility>

#include "store/segment_store_impl.h"

namespace inferscale {

Result<CompactionReport> SegmentStoreImpl::Compact(double live_share, const MoveRecords& move) {
  std::lock_guard compact_lock(compact_mutex_);
  std::vector<SegmentPtr> sparse;
  {
    std::lock_guard lock(write_mutex_);
    for (const auto& [number, segment] : segments_) {
      const auto live = static_cast<double>(segment->counts().live_extents);
      if (segment != active_ && live < live_share * static_cast<double>(segment->end())) sparse.push_back(segment);
    }
  }
  CompactionReport report;
  for (const SegmentPtr& segment : sparse) TRY(CompactSegment(segment, move, report));
  return report;
}

Status SegmentStoreImpl::CompactSegment(const SegmentPtr& segment, const MoveRecords& move, CompactionReport& report) {
  std::vector<RecordMove> moves;
  Status done = CopyLive(segment, moves, report);
  if (done) done = Sync();
  std::vector<StoredRecord> dead;
  if (done && !moves.empty()) {
    Result<std::vector<StoredRecord>> moved = move(moves);
    if (moved) {
      dead = std::move(*moved);
    } else {
      done = tl::unexpected<Error>(std::move(moved).error());
    }
  }
  if (!done) {  // the rows are as before: the copies are what nobody needs
    for (const RecordMove& m : moves) dead.push_back({m.record, m.to});
  }
  TRY(Destroy(dead));
  TRY(done);
  std::lock_guard lock(write_mutex_);
  if (!Find(segment->header().number)) return {};  // the last of its records was destroyed meanwhile
  uint64_t copied = 0;
  for (const RecordMove& m : moves) copied += ExtentBytes(m.to.bytes);
  const uint64_t freed = segment->counts().allocated;
  TRY(Remove(segment));
  ++report.segments;
  report.records += moves.size();
  report.freed_bytes += freed > copied ? freed - copied : 0;
  return {};
}

// Record by record, so that others append and destroy in between. A record that is destroyed after it was copied is
// dead in the catalog by then, which says so when it is asked to move it.
Status SegmentStoreImpl::CopyLive(const SegmentPtr& segment, std::vector<RecordMove>& moves, CompactionReport& report) {
  uint64_t end = 0;
  {
    std::lock_guard lock(write_mutex_);
    end = segment->end();
  }
  TRY_ASSIGN(const SegmentScan scan, ScanSegment(segment->file(), segment->header(), end, ScanDepth::kHeaders));
  for (const ScannedEntry& entry : scan.entries) {
    if (entry.header.state == EntryState::kDestroyed) continue;
    const SegmentLocation from{segment->header().number, entry.offset, entry.header.bytes};
    const Result<RecordBytes> bytes = Read(entry.header.record, from);
    if (!bytes && bytes.error().code == ErrorCode::kCorrupt) report.damaged.push_back({entry.header.record, from});
    if (!bytes && bytes.error().code == ErrorCode::kIo) return tl::unexpected<Error>(bytes.error());
    if (!bytes) continue;
    const std::string_view piece = bytes->view();
    std::lock_guard lock(write_mutex_);
    TRY_ASSIGN(const SegmentLocation to, AppendLocked(entry.header.record, {&piece, 1}, Budget::kIgnored));
    moves.push_back({entry.header.record, from, to});
  }
  return {};
}

Result<std::vector<DamagedRange>> SegmentStoreImpl::Verify() {
  std::vector<DamagedRange> damaged;
  for (const SegmentPtr& segment : All()) {
    std::lock_guard lock(write_mutex_);  // of one segment at a time: an append or an erasure half done is no damage
    const uint64_t number = segment->header().number;
    if (!Find(number)) continue;
    const Result<SegmentHeader> header = ReadSegmentHeader(segment->file());
    if (!header && header.error().code == ErrorCode::kIo) return tl::unexpected<Error>(header.error());
    if (!header || header->epoch != segment->header().epoch) damaged.push_back({number, 0, kSegmentBlockBytes});
    TRY_ASSIGN(const FileSize size, segment->file().Size());
    TRY_ASSIGN(const SegmentScan scan,
               ScanSegment(segment->file(), segment->header(), size.bytes, ScanDepth::kContent));
    for (const ScannedEntry& entry : scan.broken)
      damaged.push_back({number, entry.offset, ExtentBytes(entry.header.bytes)});
    for (const SegmentRange& gap : scan.gaps) damaged.push_back({number, gap.offset, gap.bytes});
    if (size.bytes < segment->end()) damaged.push_back({number, size.bytes, segment->end() - size.bytes});
  }
  return damaged;
}

}  // namespace inferscale
