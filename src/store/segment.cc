#include "store/segment.h"

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "base/assert.h"

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

Result<bool> Segment::Erase(uint64_t record, uint64_t offset, uint64_t bytes) {
  if (offset % kSegmentBlockBytes != 0 || offset < kSegmentBlockBytes || offset >= end_) return false;
  const Result<EntryHeader> found = ReadEntryHeader(*file_, header_, offset);
  if (!found && found.error().code != ErrorCode::kCorrupt) return tl::unexpected<Error>(found.error());
  if (!found) {
    TRY_ASSIGN(const uint64_t damaged, DamagedBytes(offset, bytes));
    TRY_ASSIGN(const uint64_t holes,
               Overwrite({.record = record, .bytes = damaged, .state = EntryState::kDestroyed}, offset));
    counts_.allocated -= holes;
    return true;
  }
  if (found->record != record || ExtentBytes(found->bytes) > end_ - offset) return false;
  // Also of one that is destroyed already: a crash may have left its header durable and its holes not.
  TRY_ASSIGN(const uint64_t holes,
             Overwrite({.record = record, .bytes = found->bytes, .state = EntryState::kDestroyed}, offset));
  if (found->state == EntryState::kDestroyed) return true;
  counts_.allocated -= holes;
  --counts_.records;
  counts_.live_bytes -= found->bytes;
  counts_.live_extents -= ExtentBytes(found->bytes);
  return true;
}

Status Segment::EraseBroken(const ScannedEntry& entry) {
  const EntryHeader erased{.record = entry.header.record, .bytes = entry.header.bytes, .state = EntryState::kDestroyed};
  TRY_ASSIGN(const uint64_t holes, Overwrite(erased, entry.offset));
  counts_.allocated -= holes;
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

Result<uint64_t> Segment::Overwrite(const EntryHeader& entry, uint64_t offset) {
  std::string block(kSegmentBlockBytes, '\0');
  const EntryHeaderBytes header = EncodeEntryHeader(entry, header_, offset);
  std::copy(header.begin(), header.end(), block.begin());
  const std::string_view piece = block;
  TRY(file_->Write(offset, {&piece, 1}));
  const uint64_t rest = ExtentBytes(entry.bytes) - kSegmentBlockBytes;
  return rest > 0 ? ZeroRange(offset + kSegmentBlockBytes, rest) : 0;
}

Result<uint64_t> Segment::ZeroRange(uint64_t offset, uint64_t bytes) {
  TRY_ASSIGN(const bool punched, file_->PunchHole(offset, bytes));
  if (punched) return bytes;
  const std::string zeros(std::min<uint64_t>(bytes, 1 << 20), '\0');
  for (uint64_t done = 0; done < bytes; done += zeros.size()) {
    const auto piece = std::string_view(zeros).substr(0, std::min<uint64_t>(zeros.size(), bytes - done));
    TRY(file_->Write(offset + done, {&piece, 1}));
  }
  return 0;
}

}  // namespace inferscale
