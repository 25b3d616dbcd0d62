// The bytes of a record file before its payload (docs/formats/kv_record.md). Only kv_record.cc and its tests use this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/limits.h"
#include "core/kv_record.h"

namespace inferscale {

inline constexpr size_t kRecordAlignment = 64;  // of the payload in the file and in memory: a cache line
inline constexpr size_t kRecordFixedBytes = 128;

constexpr size_t AlignRecord(size_t bytes) {
  return (bytes + kRecordAlignment - 1) / kRecordAlignment * kRecordAlignment;
}

// The header's length: fixed part, names, token ids, checksum.
constexpr size_t RecordHeaderBytes(size_t namespace_bytes, size_t fact_id_bytes, size_t tokens) {
  const size_t names = (namespace_bytes + fact_id_bytes + 3) / 4 * 4;
  return AlignRecord(kRecordFixedBytes + names + tokens * sizeof(TokenId) + sizeof(uint64_t));
}

inline constexpr size_t kRecordHeaderMaxBytes =
    RecordHeaderBytes(limits::kNamespaceBytes, limits::kIdBytes, limits::kRecordTokens);

// What the fixed part says, checked against the limits and the file's length.
struct RecordSizes {
  uint32_t header_bytes = 0;  // the payload's offset
  uint32_t tokens = 0;
  uint16_t namespace_bytes = 0;
  uint16_t fact_id_bytes = 0;
  KvShape shape;
  KvEncoding encoding = KvEncoding::kF16;
  uint64_t payload_bytes = 0;
  uint64_t payload_checksum = 0;
};

// kInvalidArgument when the record is not one that can be stored.
Result<std::string> EncodeRecordHeader(const RecordKey& key, const KvShape& shape, std::span<const std::byte> payload);

// fixed: the file's first kRecordFixedBytes. file_bytes: its whole length.
Result<RecordSizes> DecodeRecordSizes(std::string_view fixed, uint64_t file_bytes);

// header: all sizes.header_bytes of it.
Result<RecordKey> DecodeRecordKey(std::string_view header, const RecordSizes& sizes);

}  // namespace inferscale
