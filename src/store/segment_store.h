// KV records on disk, in append-only segment files of one folder: docs/formats/segment.md.
//
// The store knows bytes and record numbers. Which record is where, and which are to be destroyed, is the catalog's
// business; it keeps what Append returned, once Sync has returned. All of it is derived data: deleting the folder while
// nobody has it open costs time only.
//
//   append:  Append, Append, …, Sync, then the catalog's rows
//   forget:  the catalog's transaction puts locations on its erase list, Destroy, then the list forgets them
//   open:    compare OpenReport with the catalog: what it does not have, or has elsewhere, goes to Destroy; what it has
//            and the store has not is dropped there; Destroy everything on the erase list again (it is idempotent)
//
// Thread-safe: any number of readers, which never wait for a writer; Append, Sync, Destroy and Compact take turns.
// One process per folder; the owner's lock is above this layer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file_ops.h"
#include "base/limits.h"
#include "store/record_bytes.h"

namespace inferscale {

// Where a record's bytes are.
struct SegmentLocation {
  uint64_t segment = 0;
  uint64_t offset = 0;  // of its entry in the segment's file
  uint64_t bytes = 0;   // of the record

  bool operator==(const SegmentLocation&) const = default;
};

struct StoredRecord {
  uint64_t record = 0;
  SegmentLocation location;

  bool operator==(const StoredRecord&) const = default;
};

struct SegmentStoreOptions {
  std::filesystem::path folder;                       // made when it is not there, mode 0700
  uint64_t segment_bytes = limits::kSegmentBytes;     // a new file is begun at this size
  uint64_t budget_bytes = limits::kRecordCacheBytes;  // on disk, of all segments together
  int threads = 0;           // that verify, and read where io_uring is refused; 0: one per core
  bool io_uring = true;      // false: pread in the threads
  FileOps* files = nullptr;  // outlives the store; null: PosixFiles()
};

struct DamagedRange {
  uint64_t segment = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// What Open found. Only headers are read, but for the newest segment, whose records are verified: it is the only one
// that a crash can have left unsynced.
struct OpenReport {
  std::vector<StoredRecord> records;  // live ones, in the order of the files; a record may be there twice (compaction)
  std::vector<DamagedRange> damaged;  // no entry can be made out there, or its bytes are wrong
  std::vector<uint64_t> lost_segments;  // own header damaged: the file is removed; of a later version: left alone
  uint64_t truncated_bytes = 0;         // of a torn tail
};

struct SegmentStoreStats {
  uint64_t segments = 0;
  uint64_t records = 0;          // live
  uint64_t live_bytes = 0;       // of their records, without headers and padding
  uint64_t file_bytes = 0;       // lengths of the files
  uint64_t allocated_bytes = 0;  // what the budget counts: file bytes without holes, as we punched them
  uint64_t destroyed = 0;        // since Open
  bool io_uring = false;
};

struct ReadRequest {
  uint64_t record = 0;
  SegmentLocation location;
  std::span<std::byte> into;  // location.bytes long, or empty: a pooled buffer. Its content is undefined after an error
};

// Moves of one segment: its copies are durable. The callback changes the catalog's rows, durably, and returns the new
// places of records that died meanwhile; they are destroyed. An error stops the compaction, nothing is lost.
struct RecordMove {
  uint64_t record = 0;
  SegmentLocation from, to;
};
using MoveRecords = std::function<Result<std::vector<StoredRecord>>(std::span<const RecordMove>)>;

struct CompactionReport {
  uint64_t segments = 0;  // rewritten or removed
  uint64_t records = 0;   // moved
  uint64_t freed_bytes = 0;
  std::vector<StoredRecord> damaged;  // did not pass their checks and were left behind: the catalog drops them
};

class SegmentStore {
 public:
  // Repairs a torn tail. A damaged file never fails the open. kPermission, kNoSpace, kIo.
  static Result<std::unique_ptr<SegmentStore>> Open(const SegmentStoreOptions& options, OpenReport* report = nullptr);
  virtual ~SegmentStore() = default;

  // Writes a record, the concatenation of `pieces`. It counts only after Sync. kTooLarge, kInvalidArgument (empty);
  // kNoSpace: beyond the budget or the disk is full: nothing of it is left. After a failed Sync, that error.
  virtual Result<SegmentLocation> Append(uint64_t record, std::span<const std::string_view> pieces) = 0;
  Result<SegmentLocation> Append(uint64_t record, std::string_view bytes) {
    return Append(record, std::span<const std::string_view>(&bytes, 1));
  }
  // Everything appended before is durable: one fdatasync for all threads that wait for it. A failure is final, since
  // the kernel may have dropped any of the data: reads and Destroy go on, Append and Sync need a new Open.
  virtual Status Sync() = 0;

  // The record's bytes, checked: number, place, checksum. kNotFound: destroyed, moved, or its segment is gone (ask the
  // catalog again). kCorrupt: anything else; never wrong bytes. kIo.
  Result<RecordBytes> Read(uint64_t record, const SegmentLocation& location);
  // The same for many at once; each has its own result. [requests.size()] At most limits::kReadBatch.
  virtual std::vector<Result<RecordBytes>> ReadBatch(std::span<const ReadRequest> requests) = 0;

  // The records' bytes are gone from the files on return, durably; what is not there (any more) is skipped. A segment
  // without live records is removed, unless it is the one being written. kIo, kNoSpace: some may be destroyed, call
  // again.
  virtual Status Destroy(std::span<const StoredRecord> records) = 0;

  // Rewrites the segments of which less than `live_share` of the length is live, one after another, and removes them.
  // Runs beside everything else; one at a time. A reader that asked the catalog before may then get kNotFound. Copies
  // may exceed the budget by the live part of one segment.
  virtual Result<CompactionReport> Compact(double live_share, const MoveRecords& move) = 0;

  // Reads everything: every live record, every padding, every destroyed range. What is not as it must be.
  virtual Result<std::vector<DamagedRange>> Verify() = 0;

  virtual SegmentStoreStats stats() const = 0;
};

}  // namespace inferscale
