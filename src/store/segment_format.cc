#include "store/segment_format.h"

#include <algorithm>
#include <cstring>

#include "base/assert.h"
#include "base/fields.h"
#include "base/hash.h"
#include "base/limits.h"

namespace inferscale {

namespace {

// The first byte is no ASCII, CR LF and ^Z: damage by text-mode transfers shows.
constexpr std::string_view kSegmentMagic = "\x89ISSG\r\n\x1A";
constexpr uint32_t kVersion = 1;
constexpr size_t kSegmentChecksumAt = kSegmentBlockBytes - sizeof(uint64_t);

constexpr std::string_view kEntryMagic = "\x89ISEN\r\n\x1A";
constexpr size_t kEntryChecksumAt = kEntryHeaderBytes - sizeof(uint64_t);

tl::unexpected<Error> Corrupt(const char* what) {
  return Fail(ErrorCode::kCorrupt, std::string("KV segment: ") + what);
}

}  // namespace

std::string EncodeSegmentHeader(const SegmentHeader& header) {
  std::string block(kSegmentBlockBytes, '\0');
  std::copy(kSegmentMagic.begin(), kSegmentMagic.end(), block.begin());
  PutField(block, 8, kVersion);
  PutField(block, 12, static_cast<uint32_t>(kSegmentBlockBytes));
  PutField(block, 16, header.number);
  PutField(block, 24, header.epoch);
  PutField(block, kSegmentChecksumAt, Checksum64(block.data(), kSegmentChecksumAt));
  return block;
}

Result<SegmentHeader> DecodeSegmentHeader(std::string_view block) {
  if (block.size() < kSegmentBlockBytes) return Corrupt("the file is shorter than its header");
  if (block.substr(0, kSegmentMagic.size()) != kSegmentMagic) return Corrupt("the file does not begin with its magic");
  if (const auto version = GetField<uint32_t>(block, 8); version != kVersion)
    return Fail(ErrorCode::kVersionUnsupported, "KV segment: format version " + std::to_string(version) +
                                                    ", this program knows " + std::to_string(kVersion));
  if (GetField<uint64_t>(block, kSegmentChecksumAt) != Checksum64(block.data(), kSegmentChecksumAt))
    return Corrupt("the file header's checksum is wrong");
  const SegmentHeader header{GetField<uint64_t>(block, 16), GetField<uint64_t>(block, 24)};
  // A checksum can be right and the content not what this program writes.
  if (EncodeSegmentHeader(header) != block.substr(0, kSegmentBlockBytes)) return Corrupt("the file header is not ours");
  return header;
}

EntryHeaderBytes EncodeEntryHeader(const EntryHeader& entry, const SegmentHeader& segment, uint64_t offset) {
  EntryHeaderBytes bytes{};
  std::copy(kEntryMagic.begin(), kEntryMagic.end(), bytes.begin());
  PutField(bytes, 8, static_cast<uint32_t>(entry.state));
  PutField(bytes, 16, entry.record);
  PutField(bytes, 24, entry.bytes);
  PutField(bytes, 32, offset);
  PutField(bytes, 40, segment.epoch);
  PutField(bytes, 48, entry.checksum);
  PutField(bytes, kEntryChecksumAt, Checksum64(bytes.data(), kEntryChecksumAt));
  return bytes;
}

Result<EntryHeader> DecodeEntryHeader(std::string_view bytes, const SegmentHeader& segment, uint64_t offset) {
  bytes = bytes.substr(0, kEntryHeaderBytes);
  if (bytes.size() < kEntryHeaderBytes) return Corrupt("the file ends within an entry's header");
  if (bytes.substr(0, kEntryMagic.size()) != kEntryMagic) return Corrupt("no entry begins here");
  if (GetField<uint64_t>(bytes, kEntryChecksumAt) != Checksum64(bytes.data(), kEntryChecksumAt))
    return Corrupt("an entry header's checksum is wrong");
  const EntryHeader entry{.record = GetField<uint64_t>(bytes, 16),
                          .bytes = GetField<uint64_t>(bytes, 24),
                          .checksum = GetField<uint64_t>(bytes, 48),
                          .state = static_cast<EntryState>(GetField<uint32_t>(bytes, 8))};
  const bool destroyed = entry.state == EntryState::kDestroyed;
  if (entry.bytes == 0 || entry.bytes > limits::kRecordBytes) return Corrupt("an entry's length is beyond the limit");
  if (!destroyed && entry.state != EntryState::kLive) return Corrupt("an entry's state is unknown");
  if (destroyed && entry.checksum != 0) return Corrupt("a destroyed entry still has a checksum");
  // Also: another place, another file, anything in the reserved bytes.
  const EntryHeaderBytes ours = EncodeEntryHeader(entry, segment, offset);
  if (bytes != std::string_view(ours.data(), ours.size())) return Corrupt("an entry that belongs elsewhere");
  return entry;
}

std::string SegmentFileName(uint64_t number) {
  std::string digits = std::to_string(number);
  constexpr size_t kDigits = 10;  // sorted by name is sorted by number; larger numbers just have more
  if (digits.size() < kDigits) digits.insert(0, kDigits - digits.size(), '0');
  return digits + ".seg";
}

uint64_t SegmentNumberOf(std::string_view file_name) {
  uint64_t number = 0;
  for (const char c : file_name) {
    if (c < '0' || c > '9') break;
    if (number > (UINT64_MAX - 9) / 10) return 0;
    number = number * 10 + static_cast<uint64_t>(c - '0');
  }
  return SegmentFileName(number) == file_name ? number : 0;
}

}  // namespace inferscale
