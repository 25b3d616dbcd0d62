// Opening a segment store: what a crash or a bad disk left behind is found, repaired and reported.
#include <algorithm>
#include <string>

#include "store/segment_store_impl.h"

namespace inferscale {

Status SegmentStoreImpl::Load(OpenReport& report) {
  TRY(files_.MakeFolder(options_.folder));
  TRY_ASSIGN(const std::vector<std::string> names, files_.List(options_.folder));
  std::vector<uint64_t> numbers;
  for (const std::string& name : names)
    if (const uint64_t number = SegmentNumberOf(name); number > 0) numbers.push_back(number);
  if (numbers.size() > limits::kSegments)
    return Fail(ErrorCode::kTooLarge,
                options_.folder.string() + " holds more than " + std::to_string(limits::kSegments) + " segment files");
  std::sort(numbers.begin(), numbers.end());
  for (const uint64_t number : numbers) {
    next_number_ = number + 1;
    TRY(LoadFile(number, number == numbers.back(), report));
  }
  for (const SegmentPtr& segment : All()) {
    if (segment != active_ && segment->counts().records == 0) TRY(Remove(segment));
  }
  return {};
}

Status SegmentStoreImpl::LoadFile(uint64_t number, bool newest, OpenReport& report) {
  const std::filesystem::path path = options_.folder / SegmentFileName(number);
  TRY_ASSIGN(std::unique_ptr<File> file, files_.Open(path, OpenMode::kReadWrite));
  Result<SegmentHeader> header = ReadSegmentHeader(*file);
  if (header && header->number != number) header = Fail(ErrorCode::kCorrupt, "KV segment: another file's name");
  if (!header) return DropUnreadable(number, header.error(), newest, report);
  TRY_ASSIGN(const FileSize size, file->Size());
  const ScanDepth depth = newest ? ScanDepth::kContent : ScanDepth::kHeaders;
  TRY_ASSIGN(const SegmentScan scan, ScanSegment(*file, *header, size.bytes, depth));
  auto segment = std::make_shared<Segment>(path, std::move(file), *header);
  segment->Adopt(scan, size);
  for (const ScannedEntry& entry : scan.entries) {
    if (entry.header.state == EntryState::kLive)
      report.records.push_back({entry.header.record, {number, entry.offset, entry.header.bytes}});
  }
  for (const SegmentRange& gap : scan.gaps) {
    if (!newest || gap.offset < scan.end) report.damaged.push_back({number, gap.offset, gap.bytes});
  }
  segments_.emplace(number, segment);
  if (newest) {
    TRY(RepairNewest(*segment, scan, report));
    active_ = segment;
  }
  return {};
}

// Cuts the tail off, and erases what is torn before it: nobody was told that it is there, and it is a fact's content.
// What is left is made durable: a killed process leaves whole records that were never synced.
Status SegmentStoreImpl::RepairNewest(Segment& segment, const SegmentScan& scan, OpenReport& report) {
  TRY_ASSIGN(const FileSize size, segment.file().Size());
  report.truncated_bytes += size.bytes - scan.end;
  if (size.bytes > scan.end) TRY(segment.CutTail(scan.end));
  for (const ScannedEntry& entry : scan.broken) {
    if (entry.offset >= scan.end) continue;
    if (entry.header.state == EntryState::kLive)
      report.damaged.push_back({segment.header().number, entry.offset, ExtentBytes(entry.header.bytes)});
    TRY(segment.EraseBroken(entry));
  }
  for (const SegmentRange& gap : scan.gaps) {
    if (gap.offset < scan.end) TRY(segment.EraseGap(gap));
  }
  return segment.file().Sync();
}

// Nothing in such a file can be used, and a forgotten fact's bytes may be in it: it is removed. A file that a crash cut
// off before its first entry is no loss. A later version's may hold what that version still needs.
Status SegmentStoreImpl::DropUnreadable(uint64_t number, const Error& error, bool newest, OpenReport& report) {
  if (error.code == ErrorCode::kVersionUnsupported) {
    report.lost_segments.push_back(number);
    return {};
  }
  if (error.code != ErrorCode::kCorrupt) return tl::unexpected<Error>(error);
  const std::filesystem::path path = options_.folder / SegmentFileName(number);
  TRY_ASSIGN(const std::unique_ptr<File> file, files_.Open(path, OpenMode::kRead));
  TRY_ASSIGN(const FileSize size, file->Size());
  if (!newest || size.bytes > kSegmentBlockBytes) report.lost_segments.push_back(number);
  TRY(files_.Unlink(path));
  return files_.SyncFolder(options_.folder);
}

}  // namespace inferscale
