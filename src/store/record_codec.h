// KV records between memory, where engines want f16, and the store, where they may be int8 or int4
// (docs/formats/kv_record.md).
//
//   put:  TRY_ASSIGN(const EncodedRecord encoded, EncodeRecord(record, KvEncoding::kInt8, calibration));
//         store.Append(number, encoded.pieces());    // and encoded.key into the catalog's row
//   get:  TRY_ASSIGN(KvRecord record, DecodeRecord(bytes, owner, calibration));
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"
#include "core/calibration.h"
#include "core/kv_record.h"
#include "store/record_bytes.h"

namespace inferscale {

// Of a record's keys. By its making a calibration clips 0.2 % of what it saw; records of other texts had about 1 %
// (docs/performance.md). Five times that, and the calibration does not fit the text.
inline constexpr double kClippedShareMax = 0.05;

// Move-only. Of f16, `payload` is the record's own elements: the record must outlive it.
struct EncodedRecord {
  RecordKey key;  // with the encoding that was used, and its calibration
  std::string header;
  std::span<const std::byte> payload;
  std::optional<RecordBytes> quantised;  // owns the payload, unless it is f16
  uint64_t key_values = 0;               // 0: nothing was quantised
  uint64_t clipped = 0;                  // of them

  // What the store is given, and what a file of it is: one after the other.
  std::array<std::string_view, 2> pieces() const {
    return {header, {reinterpret_cast<const char*>(payload.data()), payload.size()}};
  }
  size_t bytes() const { return header.size() + payload.size(); }
  double clipped_share() const {
    return key_values == 0 ? 0.0 : static_cast<double>(clipped) / static_cast<double>(key_values);
  }
};

// The record as `wanted`; exact (f16) while there is no calibration (null), and where more than kClippedShareMax of its
// keys would be clipped. kInvalidArgument: a record that came from int8 or int4, an element that is infinite or NaN, or
// what no record can have. kMismatch: the calibration is of another model or encoding.
Result<EncodedRecord> EncodeRecord(const KvRecord& record, KvEncoding wanted, const Calibration* calibration);

// A record of any encoding from its bytes: 64-byte aligned, kept in place by `owner`. f16: a view of them that holds
// the owner. Otherwise decoded into memory of its own; the key stays as stored. The header's checksum is checked; the
// payload's is not: whoever put the bytes there did. kMismatch: the record names another calibration than this one, or
// there is none: it must be encoded again. kCorrupt, kVersionUnsupported, kTooLarge.
Result<KvRecord> DecodeRecord(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const Calibration* calibration);

}  // namespace inferscale
