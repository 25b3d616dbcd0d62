// A segment file of any bytes is scanned without harm: what the scan gives lies within the file, in order and without
// overlap, covers all of it, and what is called whole is whole.
//
// Checksums refuse nearly every mutation, so each input is tried a second time with entry headers made to fit.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash.h"
#include "store/segment_format.h"
#include "store/segment_scan.h"

namespace {

using namespace inferscale;

void Check(bool condition) {
  if (!condition) std::abort();
}

class MemoryFile final : public File {
 public:
  explicit MemoryFile(const std::string& bytes) : bytes_(bytes) {}
  Status Write(uint64_t, std::span<const std::string_view>) override { return Fail(ErrorCode::kIo, "read only"); }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> into) override {
    if (offset >= bytes_.size()) return size_t{0};
    const size_t count = std::min(into.size(), bytes_.size() - static_cast<size_t>(offset));
    std::memcpy(into.data(), bytes_.data() + offset, count);
    return count;
  }
  Status Sync() override { return {}; }
  Status Truncate(uint64_t) override { return {}; }
  Result<bool> PunchHole(uint64_t, uint64_t) override { return false; }
  Result<FileSize> Size() override { return FileSize{bytes_.size(), bytes_.size()}; }
  int descriptor() const override { return -1; }

 private:
  const std::string& bytes_;
};

void Scan(const std::string& bytes, const SegmentHeader& segment) {
  MemoryFile file(bytes);
  const auto scan = ScanSegment(file, segment, bytes.size(), ScanDepth::kContent);
  Check(scan.has_value());
  std::vector<SegmentRange> all = scan->gaps;
  for (const ScannedEntry& entry : scan->entries) {
    all.push_back({entry.offset, ExtentBytes(entry.header.bytes)});
    const char* const record = bytes.data() + entry.offset + kEntryHeaderBytes;
    if (entry.header.state == EntryState::kLive)
      Check(Checksum64(record, entry.header.bytes) == entry.header.checksum);
    else
      Check(std::all_of(record, record + entry.header.bytes, [](char c) { return c == 0; }));
  }
  for (const ScannedEntry& entry : scan->broken) all.push_back({entry.offset, ExtentBytes(entry.header.bytes)});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.offset < b.offset; });
  uint64_t at = kSegmentBlockBytes;
  for (const SegmentRange& range : all) {
    Check(range.offset == at && range.bytes > 0);
    at += range.bytes;
  }
  Check(at == std::max<uint64_t>(bytes.size(), kSegmentBlockBytes));
}

// docs/formats/segment.md: in each block that has the magic, place, epoch and both checksums are made right.
void FitHeaders(std::string& bytes, const SegmentHeader& segment) {
  for (size_t at = kSegmentBlockBytes; at + kEntryHeaderBytes <= bytes.size(); at += kSegmentBlockBytes) {
    const uint64_t offset = at;
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at + 24, 8);
    std::memcpy(bytes.data() + at + 32, &offset, 8);
    std::memcpy(bytes.data() + at + 40, &segment.epoch, 8);
    if (bytes[at + 8] == 1 && length <= bytes.size() - at - kEntryHeaderBytes) {
      const uint64_t content = Checksum64(bytes.data() + at + kEntryHeaderBytes, length);
      std::memcpy(bytes.data() + at + 48, &content, 8);
    }
    const uint64_t header = Checksum64(bytes.data() + at, 56);
    std::memcpy(bytes.data() + at + 56, &header, 8);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  MemoryFile file(bytes);
  SegmentHeader segment{42, 0x1122334455667788};
  if (const auto header = ReadSegmentHeader(file)) {
    segment = *header;
    Check(EncodeSegmentHeader(segment) == bytes.substr(0, kSegmentBlockBytes));
  }
  Scan(bytes, segment);
  FitHeaders(bytes, segment);
  Scan(bytes, segment);
  return 0;
}
