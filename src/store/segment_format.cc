#include "store/segment_format.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/assert.h"
#include "base/hash.h"
#include "base/limits.h"

namespace inferscale {

static_assert(std::endian::native == std::endian::little, "the format is little-endian, and so are our targets");

namespace {

// The first byte is no ASCII, CR LF and ^Z: damage by text-mode transfers shows.
constexpr std::string_view kSegmentMagic = "\x89ISSG\r\n\x1A";
constexpr uint32_t kVersion = 1;
constexpr size_t kSegmentChecksumAt = kSegmentBlockBytes - sizeof(uint64_t);

constexpr std::string_view kEntryMagic = "\x89ISEN\r\n\x1A";
constexpr size_t kEntryChecksumAt = kEntryHeaderBytes - sizeof(uint64_t);

template <class T>
void Put(char* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

template <class T>
T Get(std::string_view bytes, size_t at) {
  INFERSCALE_ASSERT(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

tl::unexpected<Error> Corrupt(const char* what) {
  return Fail(ErrorCode::kCorrupt, std::string("KV segment: ") + what);
}

}  // namespace

std::string EncodeSegmentHeader(const SegmentHeader& header) {
  std::string block(kSegmentBlockBytes, '\0');
  std::copy(kSegmentMagic.begin(), kSegmentMagic.end(), block.begin());
  Put(block.data() + 8, kVersion);
  Put(block.data() + 12, static_cast<uint32_t>(kSegmentBlockBytes));
  Put(block.data() + 16, header.number);
  Put(block.data() + 24, header.epoch);
  Put(block.data() + kSegmentChecksumAt, Checksum64(block.data(), kSegmentChecksumAt));
  return block;
}

Result<SegmentHeader> DecodeSegmentHeader(std::string_view block) {
  if (block.size() < kSegmentBlockBytes) return Corrupt("the file is shorter than its header");
  if (block.substr(0, kSegmentMagic.size()) != kSegmentMagic) return Corrupt("the file does not begin with its magic");
  if (const auto version = Get<uint32_t>(block, 8); version != kVersion)
    return Fail(ErrorCode::kVersionUnsupported, "KV segment: format version " + std::to_string(version) +
                                                    ", this program knows " + std::to_string(kVersion));
  if (Get<uint64_t>(block, kSegmentChecksumAt) != Checksum64(block.data(), kSegmentChecksumAt))
    return Corrupt("the file header's checksum is wrong");
  const SegmentHeader header{Get<uint64_t>(block, 16), Get<uint64_t>(block, 24)};
  // A checksum can be right and the content not what this program writes.
  if (EncodeSegmentHeader(header) != block.substr(0, kSegmentBlockBytes)) return Corrupt("the file header is not ours");
  return header;
}

EntryHeaderBytes EncodeEntryHeader(const EntryHeader& entry, const SegmentHeader& segment, uint64_t offset) {
  EntryHeaderBytes bytes{};
  std::copy(kEntryMagic.begin(), kEntryMagic.end(), bytes.begin());
  Put(bytes.data() + 8, static_cast<uint32_t>(entry.state));
  Put(bytes.data() + 16, entry.record);
  Put(bytes.data() + 24, entry.bytes);
  Put(bytes.data() + 32, offset);
  Put(bytes.data() + 40, segment.epoch);
  Put(bytes.data() + 48, entry.checksum);
  Put(bytes.data() + kEntryChecksumAt, Checksum64(bytes.data(), kEntryChecksumAt));
  return bytes;
}

Result<EntryHeader> DecodeEntryHeader(std::string_view bytes, const SegmentHeader& segment, uint64_t offset) {
  bytes = bytes.substr(0, kEntryHeaderBytes);
  if (bytes.size() < kEntryHeaderBytes) return Corrupt("the file ends within an entry's header");
  if (bytes.substr(0, kEntryMagic.size()) != kEntryMagic) return Corrupt("no entry begins here");
  if (Get<uint64_t>(bytes, kEntryChecksumAt) != Checksum64(bytes.data(), kEntryChecksumAt))
    return Corrupt("an entry header's checksum is wrong");
  const EntryHeader entry{.record = Get<uint64_t>(bytes, 16),
                          .bytes = Get<uint64_t>(bytes, 24),
                          .checksum = Get<uint64_t>(bytes, 48),
                          .state = static_cast<EntryState>(Get<uint32_t>(bytes, 8))};
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
