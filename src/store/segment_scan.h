// Finds the entries of a segment file. Trusts nothing in it.
#pragma once

#include <cstdint>
#include <vector>

#include "base/error.h"
#include "base/file_ops.h"
#include "store/segment_format.h"

namespace inferscale {

struct ScannedEntry {
  EntryHeader header;
  uint64_t offset = 0;
};

struct SegmentRange {
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct SegmentScan {
  std::vector<ScannedEntry> entries;  // with a valid header; whole, when the scan verified
  std::vector<ScannedEntry> broken;   // valid header, but wrong content: torn, damaged or not yet erased
  std::vector<SegmentRange> gaps;     // where no entry can be made out
  uint64_t end = kSegmentBlockBytes;  // behind the last of `entries`: what follows is in `broken` and `gaps`
};

enum class ScanDepth : uint8_t { kHeaders, kContent };

// The first block's header. kCorrupt, kVersionUnsupported, kIo.
Result<SegmentHeader> ReadSegmentHeader(File& file);

// Looks at [first block's end, file_bytes). kIo.
Result<SegmentScan> ScanSegment(File& file, const SegmentHeader& segment, uint64_t file_bytes, ScanDepth depth);

// Whether an entry's record has its checksum and its padding is zero; of a destroyed one, whether it is all zeros
// behind its header. kIo.
Result<bool> ContentIsWhole(File& file, const ScannedEntry& entry);

// The entry at a place, by its header. kCorrupt: none there. kNotFound: behind the file's end. kIo.
Result<EntryHeader> ReadEntryHeader(File& file, const SegmentHeader& segment, uint64_t offset);

}  // namespace inferscale
