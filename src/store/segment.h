// One open segment file: writing and erasing entries, and the counts of what is in it. segment_store.h is what others
// use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/file_ops.h"
#include "store/segment_format.h"
#include "store/segment_scan.h"

namespace inferscale {

// Readers use what is constant; all else belongs to the store's writer.
class Segment {
 public:
  // A new, empty file, itself and its name durable.
  static Result<std::shared_ptr<Segment>> Create(FileOps& files, const std::filesystem::path& folder, uint64_t number);
  Segment(std::filesystem::path path, std::unique_ptr<File> file, const SegmentHeader& header)
      : path_(std::move(path)), file_(std::move(file)), header_(header) {}

  // Constant after construction.
  const std::filesystem::path& path() const { return path_; }
  const SegmentHeader& header() const { return header_; }
  File& file() const { return *file_; }

  struct Counts {
    uint64_t records = 0;     // live
    uint64_t live_bytes = 0;  // of their records
    uint64_t live_extents = 0;
    uint64_t allocated = kSegmentBlockBytes;  // live extents, one block for each destroyed entry, what is not known
  };
  const Counts& counts() const { return counts_; }
  uint64_t end() const { return end_; }  // where the next entry goes

  // Takes over what a scan found in a file of that size.
  void Adopt(const SegmentScan& scan, const FileSize& size);
  // Cuts what is behind `bytes`, which is where an entry begins.
  Status CutTail(uint64_t bytes);

  // Writes an entry at the end; returns its place. After an error the file is as before, or broken() says otherwise.
  Result<uint64_t> Append(uint64_t record, std::span<const std::string_view> pieces, uint64_t bytes, uint64_t checksum);
  bool broken() const { return broken_; }

  // Erasing takes two steps, each durable after file().Sync(): first zeros, then a header that says so. A header of a
  // destroyed entry so promises that nothing is left behind it, also after a crash between the two.
  struct Erasure {
    EntryHeader destroyed;  // the header to be
    uint64_t offset = 0;
    bool was_live = false;
    uint64_t holes = 0;  // bytes that stopped taking space
  };
  // The first step, for the record at this place. Nothing: another record, or none, is there. Where no entry can be
  // made out, what lies between here and the next one (at most `bytes`, the record's length) is erased likewise.
  Result<std::optional<Erasure>> EraseContent(uint64_t record, uint64_t offset, uint64_t bytes);
  // The second step.
  Status FinishErase(const Erasure& erasure);
  // Both steps at once, for an entry that a scan found broken and Adopt did therefore not count: Open verifies the
  // newest segment's content, so what a crash leaves undone here is done by the next one.
  Status EraseBroken(const ScannedEntry& entry);
  // And for blocks in which no entry can be made out: destroyed entries of record 0, which nobody has.
  Status EraseGap(const SegmentRange& gap);

 private:
  Result<uint64_t> DamagedBytes(uint64_t offset, uint64_t bytes);
  // All of an entry but its header. Returns the bytes of the holes made.
  Result<uint64_t> ZeroContent(uint64_t record_bytes, uint64_t offset);
  Status WriteZeros(uint64_t offset, uint64_t bytes);

  const std::filesystem::path path_;
  const std::unique_ptr<File> file_;
  const SegmentHeader header_;

  uint64_t end_ = kSegmentBlockBytes;
  Counts counts_;
  bool broken_ = false;  // bytes of a failed append could not be cut off
};

}  // namespace inferscale
