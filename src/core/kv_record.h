// A KV record: one fact's keys before rotation and values, for one model, with everything needed to decide whether it
// may be used. File format: docs/formats/kv_record.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "base/file.h"
#include "core/kv_shape.h"
#include "core/types.h"

namespace inferscale {

// What makes a record this record. Two records with equal keys hold the same KV.
struct RecordKey {
  std::string name_space;
  std::string fact_id;
  uint32_t content_version = 1;
  Tokens token_ids;  // the fact's own tokens
  ModelKey model_key;
  KvEncoding encoding = KvEncoding::kF16;
  Hash128 calibration_id;  // zero for f16: nothing to calibrate
  Hash128 window_digest;   // core/window.h: what the record has seen

  bool operator==(const RecordKey&) const = default;
  RecordId Id() const;
};

// Elements in KvShape's payload order, as IEEE half bits. 64-byte aligned, never zero-filled: megabytes are read or
// captured straight into it. Move-only.
class KvPayload {
 public:
  KvPayload(const KvShape& shape, uint32_t tokens);
  // Of elements that `owner` keeps in place: read only.
  KvPayload(const KvShape& shape, uint32_t tokens, const uint16_t* elements, std::shared_ptr<const void> owner);

  const KvShape& shape() const { return shape_; }
  uint32_t tokens() const { return tokens_; }
  size_t elements() const { return shape_.ElementsPerToken() * tokens_; }
  size_t bytes() const { return elements() * sizeof(uint16_t); }
  uint16_t* data() { return data_.get(); }
  const uint16_t* data() const { return data_.get(); }

  // [tokens][key_dim] keys before rotation, and [tokens][value_dim] values.
  uint16_t* Key(uint32_t head, uint32_t layer) { return data() + shape_.KeyOffset(head, layer, tokens_); }
  const uint16_t* Key(uint32_t head, uint32_t layer) const { return data() + shape_.KeyOffset(head, layer, tokens_); }
  uint16_t* Value(uint32_t head, uint32_t layer) { return data() + shape_.ValueOffset(head, layer, tokens_); }
  const uint16_t* Value(uint32_t head, uint32_t layer) const {
    return data() + shape_.ValueOffset(head, layer, tokens_);
  }

 private:
  struct Free {
    size_t bytes = 0;
    std::shared_ptr<const void> owner;  // null: a pooled buffer of ours
    void operator()(uint16_t* p) const;
  };
  KvShape shape_;
  uint32_t tokens_ = 0;
  std::unique_ptr<uint16_t[], Free> data_;
};

// A record as engines take it. key.encoding is how it is, or was, stored: elements that came from int8 or int4
// (store/record_codec.h) are rounded for good, and such a record is not written again.
struct KvRecord {
  RecordKey key;
  KvPayload payload;  // payload.tokens() == key.token_ids.size()

  uint32_t tokens() const { return payload.tokens(); }
};

// Keeps a record's bytes in place while it is held: the pin of the main path.
using RecordHandle = std::shared_ptr<const KvRecord>;

// Writes a record so that a crash leaves the whole file or none (kFast: or, after a power cut, a file that does not
// pass its checks). kInvalidArgument: not a record that can be stored. kNoSpace, kPermission, kIo.
Status WriteRecordFile(const std::filesystem::path& path, const KvRecord& record,
                       Durability durability = Durability::kSynced);

// Reads and checks a record file: magic, version, sizes against limits and file length, both checksums. The payload is
// read straight into its final place. kNotFound, kCorrupt, kVersionUnsupported, kTooLarge, kIo; kMismatch: a quantised
// record, which this and the next functions leave to store/record_codec.h.
Result<KvRecord> ReadRecordFile(const std::filesystem::path& path);

// A record file's key and shape, from its checked header: 4 KiB read, the payload's content not looked at.
struct RecordInfo {
  RecordKey key;
  KvShape shape;
};
Result<RecordInfo> ReadRecordInfo(const std::filesystem::path& path);

// The same from memory.
Result<std::string> SerializeRecord(const KvRecord& record);
Result<KvRecord> ParseRecord(std::string_view bytes);

// What comes before the payload in a record's bytes, which are the two one after the other.
Result<std::string> SerializeRecordHeader(const KvRecord& record);
// The same for a payload of any encoding, key.encoding's. kInvalidArgument: not one that can be stored.
Result<std::string> SerializeRecordHeader(const RecordKey& key, const KvShape& shape,
                                          std::span<const std::byte> payload);

// A record of any encoding in its bytes; nothing is copied but the key.
struct RecordView {
  RecordKey key;
  KvShape shape;
  std::span<const std::byte> payload;
  uint64_t payload_checksum = 0;  // as the header says; not compared with the payload
};
// The header is checked, its checksum too. kCorrupt, kVersionUnsupported, kTooLarge.
Result<RecordView> ViewRecordBytes(std::span<const std::byte> bytes);

// A record over bytes that `owner` keeps in place, 64-byte aligned; nothing is copied but the key. The header's
// checksum is checked; the payload's is not: whoever put the bytes there did.
Result<KvRecord> ViewRecord(std::span<const std::byte> bytes, std::shared_ptr<const void> owner);

}  // namespace inferscale
