#include "store/segment.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/assert.h"
#include "base/limits.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

uint64_t RandomEpoch() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

}  // namespace

Result<std::shared_ptr<Segment>> Segment::Create(FileOps& files, const fs::path& folder, uint64_t number) {
  const SegmentHeader header{number, RandomEpoch()};
  const fs::path path = folder / SegmentFileName(number);
  TRY_ASSIGN(std::unique_ptr<File> file, files.Open(path, OpenMode::kCreate));
  const std::string block = EncodeSegmentHeader(header);
  const std::string_view piece = block;
  Status made = file->Write(0, {&piece, 1});
  if (made) made = file->Sync();
  if (made) made = files.SyncFolder(folder);
  if (!made) {
    (void)files.Unlink(path);  // Open removes it otherwise
    return tl::unexpected<Error>(made.error());
  }
  return std::make_shared<Segment>(path, std::move(file), header);
}

void Segment::Adopt(const SegmentScan& scan, const FileSize& size) {
  end_ = (size.bytes + kSegmentBlockBytes - 1) / kSegmentBlockBytes * kSegmentBlockBytes;
  counts_ = {.allocated = end_};
  const bool has_holes = size.allocated < end_;  // else the file system could make none
  for (const ScannedEntry& entry : scan.entries) {
    const uint64_t extent = ExtentBytes(entry.header.bytes);
    if (entry.header.state == EntryState::kDestroyed) {
      if (has_holes) counts_.allocated -= extent - kSegmentBlockBytes;
      continue;
    }
    ++counts_.records;
    counts_.live_bytes += entry.header.bytes;
    counts_.live_extents += extent;
  }
}

Status Segment::CutTail(uint64_t bytes) {
  INFERSCALE_ASSERT(bytes % kSegmentBlockBytes == 0 && bytes <= end_);
  TRY(file_->Truncate(bytes));
  counts_.allocated -= end_ - bytes;
  end_ = bytes;
  return {};
}

Result<uint64_t> Segment::Append(uint64_t record, std::span<const std::string_view> pieces, uint64_t bytes,
                                 uint64_t checksum) {
  static constexpr std::array<char, kSegmentBlockBytes> kZeros{};
  INFERSCALE_ASSERT(!broken_);
  const uint64_t offset = end_, extent = ExtentBytes(bytes);
  const EntryHeaderBytes header = EncodeEntryHeader({record, bytes, checksum}, header_, offset);
  std::vector<std::string_view> all;
  all.reserve(pieces.size() + 2);
  all.emplace_back(header.data(), header.size());
  all.insert(all.end(), pieces.begin(), pieces.end());
  all.emplace_back(kZeros.data(), extent - kEntryHeaderBytes - bytes);
  if (const Status written = file_->Write(offset, all); !written) {
    // Nothing half written may stay: it is a fact's content, and space on what may be a full disk.
    if (!file_->Truncate(offset)) broken_ = true;
    return tl::unexpected<Error>(written.error());
  }
  end_ += extent;
  ++counts_.records;
  counts_.live_bytes += bytes;
  counts_.live_extents += extent;
  counts_.allocated += extent;
  return offset;
}

Result<std::optional<Segment::Erasure>> Segment::EraseContent(uint64_t record, uint64_t offset, uint64_t bytes) {
  if (offset % kSegmentBlockBytes != 0 || offset < kSegmentBlockBytes || offset >= end_) return std::nullopt;
  const Result<EntryHeader> found = ReadEntryHeader(*file_, header_, offset);
  if (!found && found.error().code != ErrorCode::kCorrupt) return tl::unexpected<Error>(found.error());
  Erasure erasure{{.record = record, .state = EntryState::kDestroyed}, offset};
  if (found) {
    if (found->record != record || ExtentBytes(found->bytes) > end_ - offset) return std::nullopt;
    if (found->state == EntryState::kDestroyed) return std::nullopt;
    erasure.destroyed.bytes = found->bytes;
    erasure.was_live = true;
  } else {
    TRY_ASSIGN(erasure.destroyed.bytes, DamagedBytes(offset, bytes));
  }
  TRY_ASSIGN(erasure.holes, ZeroContent(erasure.destroyed.bytes, offset));
  return erasure;
}

Status Segment::FinishErase(const Erasure& erasure) {
  const EntryHeaderBytes header = EncodeEntryHeader(erasure.destroyed, header_, erasure.offset);
  const std::string_view piece(header.data(), header.size());
  TRY(file_->Write(erasure.offset, {&piece, 1}));
  counts_.allocated -= erasure.holes;
  if (!erasure.was_live) return {};
  --counts_.records;
  counts_.live_bytes -= erasure.destroyed.bytes;
  counts_.live_extents -= ExtentBytes(erasure.destroyed.bytes);
  return {};
}

Status Segment::EraseBroken(const ScannedEntry& entry) {
  Erasure erasure{{.record = entry.header.record, .bytes = entry.header.bytes, .state = EntryState::kDestroyed},
                  entry.offset};
  TRY_ASSIGN(erasure.holes, ZeroContent(entry.header.bytes, entry.offset));
  return FinishErase(erasure);
}

Status Segment::EraseGap(const SegmentRange& gap) {
  INFERSCALE_ASSERT(gap.bytes % kSegmentBlockBytes == 0);
  constexpr uint64_t kLongest = limits::kRecordBytes / kSegmentBlockBytes * kSegmentBlockBytes;
  for (uint64_t done = 0; done < gap.bytes;) {
    const uint64_t extent = std::min(kLongest, gap.bytes - done);
    TRY(EraseBroken({{.record = 0, .bytes = extent - kEntryHeaderBytes}, gap.offset + done}));
    done += extent;
  }
  return {};
}

// The largest record length of at most `bytes` whose extent at `offset` reaches neither into another entry nor behind
// the end.
Result<uint64_t> Segment::DamagedBytes(uint64_t offset, uint64_t bytes) {
  uint64_t stop = offset + kSegmentBlockBytes;
  while (stop < end_ && stop - offset < ExtentBytes(bytes)) {
    const Result<EntryHeader> next = ReadEntryHeader(*file_, header_, stop);
    if (next) break;
    if (next.error().code == ErrorCode::kIo) return tl::unexpected<Error>(next.error());
    stop += kSegmentBlockBytes;
  }
  return std::max<uint64_t>(1, std::min(bytes, stop - offset - kEntryHeaderBytes));
}

Result<uint64_t> Segment::ZeroContent(uint64_t record_bytes, uint64_t offset) {
  TRY(WriteZeros(offset + kEntryHeaderBytes, kSegmentBlockBytes - kEntryHeaderBytes));
  const uint64_t rest = ExtentBytes(record_bytes) - kSegmentBlockBytes;
  if (rest == 0) return 0;
  TRY_ASSIGN(const bool punched, file_->PunchHole(offset + kSegmentBlockBytes, rest));
  if (punched) return rest;
  TRY(WriteZeros(offset + kSegmentBlockBytes, rest));
  return 0;
}

Status Segment::WriteZeros(uint64_t offset, uint64_t bytes) {
  const std::string zeros(std::min<uint64_t>(bytes, 1 << 20), '\0');
  for (uint64_t done = 0; done < bytes; done += zeros.size()) {
    const auto piece = std::string_view(zeros).substr(0, std::min<uint64_t>(zeros.size(), bytes - done));
    TRY(file_->Write(offset + done, {&piece, 1}));
  }
  return {};
}

}  // namespace inferscale
