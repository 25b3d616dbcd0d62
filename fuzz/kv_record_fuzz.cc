// A record file of any bytes is refused or understood, and what is understood is written back byte for byte.
//
// The checksums refuse nearly every mutation before anything else of it is looked at, so each input is tried a second
// time with checksums that fit: then the checks of sizes and names must stand alone.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/hash.h"
#include "core/kv_record.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

// Of any encoding: the header is written back from what was understood of it.
void ViewAndWriteBack(std::string_view bytes) {
  const auto view = inferscale::ViewRecordBytes(std::as_bytes(std::span(bytes)));
  if (!view) return;
  auto header = inferscale::SerializeRecordHeader(view->key, view->shape, view->payload);
  Check(header.has_value() && header->size() + view->payload.size() == bytes.size());
  const uint64_t checksum = inferscale::Checksum64(view->payload.data(), view->payload.size());
  if (checksum == view->payload_checksum) Check(bytes.substr(0, header->size()) == *header);
}

void ParseAndWriteBack(std::string_view bytes) {
  ViewAndWriteBack(bytes);
  auto record = inferscale::ParseRecord(bytes);
  if (!record) {
    Check(!record.error().message.empty());
    return;
  }
  Check(record->tokens() == record->key.token_ids.size());
  auto again = inferscale::SerializeRecord(*record);
  Check(again.has_value() && *again == bytes);
}

// docs/formats/kv_record.md: the header's length at 12, the payload's checksum at 24; the header's own at its end.
void FitChecksums(std::string& bytes) {
  constexpr size_t kHeaderBytesAt = 12, kPayloadChecksumAt = 24, kFixedBytes = 128;
  if (bytes.size() < kFixedBytes) return;
  uint32_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data() + kHeaderBytesAt, sizeof(header_bytes));
  if (header_bytes < kFixedBytes || header_bytes > bytes.size()) return;
  const uint64_t payload = inferscale::Checksum64(bytes.data() + header_bytes, bytes.size() - header_bytes);
  std::memcpy(bytes.data() + kPayloadChecksumAt, &payload, sizeof(payload));
  const size_t at = header_bytes - sizeof(uint64_t);
  const uint64_t header = inferscale::Checksum64(bytes.data(), at);
  std::memcpy(bytes.data() + at, &header, sizeof(header));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  ParseAndWriteBack(bytes);
  FitChecksums(bytes);
  ParseAndWriteBack(bytes);
  return 0;
}
