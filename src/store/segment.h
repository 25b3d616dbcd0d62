// One open segment file: writing and erasing entries, and the counts of what is in it. segment_store.h is what others
// use.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
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

  // Zeros and a header that says so, in place of the record at this place. False: another record, or none, is there.
  // Where no entry can be made out, what lies between here and the next one (at most `bytes`, the record's length) is
  // erased likewise. Durable after file().Sync().
  Result<bool> Erase(uint64_t record, uint64_t offset, uint64_t bytes);
  // The same for an entry that a scan found broken and Adopt did therefore not count.
  Status EraseBroken(const ScannedEntry& entry);

 private:
  Result<uint64_t> DamagedBytes(uint64_t offset, uint64_t bytes);
  // Returns the bytes of the holes made.
  Result<uint64_t> Overwrite(const EntryHeader& entry, uint64_t offset);
  Result<uint64_t> ZeroRange(uint64_t offset, uint64_t bytes);

  const std::filesystem::path path_;
  const std::unique_ptr<File> file_;
  const SegmentHeader header_;

  uint64_t end_ = kSegmentBlockBytes;
  Counts counts_;
  bool broken_ = false;  // bytes of a failed append could not be cut off
};

}  // namespace inferscale
