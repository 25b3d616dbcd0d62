#include "store/segment_scan.h"

#include <algorithm>
#include <array>
#include <string>

#include "base/hash.h"
#include "base/limits.h"
#include "store/record_bytes.h"

namespace inferscale {

namespace {

bool AllZero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

bool IsMissing(const Error& error) { return error.code == ErrorCode::kCorrupt || error.code == ErrorCode::kNotFound; }

}  // namespace

Result<SegmentHeader> ReadSegmentHeader(File& file) {
  std::string block(kSegmentBlockBytes, '\0');
  TRY_ASSIGN(const size_t read, file.Read(0, std::as_writable_bytes(std::span(block))));
  return DecodeSegmentHeader(std::string_view(block).substr(0, read));
}

Result<EntryHeader> ReadEntryHeader(File& file, const SegmentHeader& segment, uint64_t offset) {
  EntryHeaderBytes bytes;
  TRY_ASSIGN(const size_t read, file.Read(offset, std::as_writable_bytes(std::span(bytes))));
  if (read == 0) return Fail(ErrorCode::kNotFound, "KV segment: the file ends before this place");
  return DecodeEntryHeader({bytes.data(), read}, segment, offset);
}

Result<bool> ContentIsWhole(File& file, const ScannedEntry& entry) {
  const uint64_t record = entry.header.bytes;
  RecordBytes content(ExtentBytes(record) - kEntryHeaderBytes);
  TRY_ASSIGN(const size_t read, file.Read(entry.offset + kEntryHeaderBytes, content.bytes()));
  if (read < content.size()) return false;
  if (entry.header.state == EntryState::kDestroyed) return AllZero(content.bytes());
  return Checksum64(content.bytes().data(), record) == entry.header.checksum &&
         AllZero(content.bytes().subspan(record));
}

Result<SegmentScan> ScanSegment(File& file, const SegmentHeader& segment, uint64_t file_bytes, ScanDepth depth) {
  SegmentScan scan;
  uint64_t at = kSegmentBlockBytes, gap = at;  // [gap, at): nothing made out so far
  const auto close_gap = [&](uint64_t end) {
    if (gap < end) scan.gaps.push_back({gap, end - gap});
  };
  while (at < file_bytes) {
    const Result<EntryHeader> header = ReadEntryHeader(file, segment, at);
    if (!header && !IsMissing(header.error())) return tl::unexpected<Error>(header.error());
    if (!header || ExtentBytes(header->bytes) > file_bytes - at) {
      at += kSegmentBlockBytes;
      continue;
    }
    close_gap(at);
    const ScannedEntry entry{*header, at};
    at += ExtentBytes(header->bytes);
    gap = at;
    bool whole = true;
    if (depth == ScanDepth::kContent) {
      TRY_ASSIGN(whole, ContentIsWhole(file, entry));
    }
    (whole ? scan.entries : scan.broken).push_back(entry);
    if (whole) scan.end = at;
  }
  close_gap(file_bytes);
  return scan;
}

}  // namespace inferscale
