// The bytes of a segment file (docs/formats/segment.md). Pure functions; segment_store.h is what others use.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// Entries begin at multiples of a block, the unit in which common file systems allocate: a hole then frees all of a
// destroyed entry but the block of its header, no neighbour shares a block with it, and a scan that lost its way finds
// the next entry by looking at block starts only.
inline constexpr size_t kSegmentBlockBytes = 4096;
// A cache line: the record behind it, and so its payload (64-byte aligned in the record), keeps its alignment in
// memory.
inline constexpr size_t kEntryHeaderBytes = 64;

struct SegmentHeader {
  uint64_t number = 0;
  uint64_t epoch = 0;  // random, drawn when the file is made: an entry of another file is never taken for one of this
};

enum class EntryState : uint32_t { kLive = 1, kDestroyed = 2 };

struct EntryHeader {
  uint64_t record = 0;
  uint64_t bytes = 0;     // of the record
  uint64_t checksum = 0;  // XXH3-64 of them; 0 in a destroyed entry: not even that may tell what they were
  EntryState state = EntryState::kLive;

  bool operator==(const EntryHeader&) const = default;
};

using EntryHeaderBytes = std::array<char, kEntryHeaderBytes>;

// Header, record and padding: a multiple of the block. record_bytes <= limits::kRecordBytes.
constexpr uint64_t ExtentBytes(uint64_t record_bytes) {
  return (kEntryHeaderBytes + record_bytes + kSegmentBlockBytes - 1) / kSegmentBlockBytes * kSegmentBlockBytes;
}

// [kSegmentBlockBytes]
std::string EncodeSegmentHeader(const SegmentHeader& header);
// block: the file's first block. kCorrupt, kVersionUnsupported.
Result<SegmentHeader> DecodeSegmentHeader(std::string_view block);

// offset: of the entry in its file.
EntryHeaderBytes EncodeEntryHeader(const EntryHeader& entry, const SegmentHeader& segment, uint64_t offset);
// bytes: at least kEntryHeaderBytes. kCorrupt: not an entry of this segment at this place.
Result<EntryHeader> DecodeEntryHeader(std::string_view bytes, const SegmentHeader& segment, uint64_t offset);

// "0000000001.seg"; and back: 0 when it is not such a name.
std::string SegmentFileName(uint64_t number);
uint64_t SegmentNumberOf(std::string_view file_name);

}  // namespace inferscale
