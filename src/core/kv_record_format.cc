#include "core/kv_record_format.h"

#include <cstring>

#include "base/fields.h"

namespace inferscale {

namespace {

constexpr std::string_view kMagic("\x89ISKV\r\n\x1A",
                                  8);  // a transfer that changes line ends or the high bit shows here
constexpr uint32_t kFormatVersion = 1;
constexpr uint8_t kLayoutHeadMajor = 1;  // [kv head][layer][K then V][token][dim]

// Offsets of the fixed part.
enum : size_t {
  kAtMagic = 0,
  kAtVersion = 8,
  kAtHeaderBytes = 12,
  kAtPayloadBytes = 16,
  kAtPayloadChecksum = 24,
  kAtRecordId = 32,
  kAtModelKey = 48,
  kAtCalibration = 64,
  kAtWindow = 80,
  kAtContentVersion = 96,
  kAtTokens = 100,
  kAtLayers = 104,
  kAtKvHeads = 108,
  kAtKeyDim = 112,
  kAtValueDim = 116,
  kAtLayout = 120,
  kAtKeyEncoding = 121,
  kAtValueEncoding = 122,
  kAtZero = 123,
  kAtNamespaceBytes = 124,
  kAtFactIdBytes = 126,
};
static_assert(kAtFactIdBytes + sizeof(uint16_t) == kRecordFixedBytes);

tl::unexpected<Error> Corrupt(const std::string& what) { return Fail(ErrorCode::kCorrupt, "KV record: " + what); }

// Nothing here can overflow: within the limits the product is below 2^44.
Status CheckSizes(const KvShape& shape, uint64_t tokens, uint64_t namespace_bytes, uint64_t fact_id_bytes) {
  const auto check = [](const char* name, uint64_t value, uint64_t minimum, uint64_t maximum) -> Status {
    if (value >= minimum && value <= maximum) return {};
    return Fail(value > maximum ? ErrorCode::kTooLarge : ErrorCode::kCorrupt,
                std::string("KV record: ") + name + " is " + std::to_string(value) + ", not " +
                    std::to_string(minimum) + " to " + std::to_string(maximum));
  };
  TRY(check("layers", shape.layers, 1, limits::kModelLayers));
  TRY(check("kv heads", shape.kv_heads, 1, limits::kModelKvHeads));
  TRY(check("key dim", shape.key_dim, 1, limits::kHeadDim));
  TRY(check("value dim", shape.value_dim, 1, limits::kHeadDim));
  TRY(check("tokens", tokens, 1, limits::kRecordTokens));
  TRY(check("namespace length", namespace_bytes, 0, limits::kNamespaceBytes));
  TRY(check("fact id length", fact_id_bytes, 1, limits::kIdBytes));
  return check("payload length", shape.PayloadBytes(tokens, KvEncoding::kF16), 1, limits::kRecordBytes);
}

// What may be in the header's two bytes for keys and values. A calibration belongs to a quantised record,
// and only to one.
bool CanStore(KvEncoding encoding, const KvShape& shape, const Hash128& calibration_id) {
  if (encoding != KvEncoding::kF16 && !IsQuantised(encoding)) return false;
  return shape.CanStoreAs(encoding) && IsQuantised(encoding) == (calibration_id != Hash128());
}

}  // namespace

Result<std::string> EncodeRecordHeader(const RecordKey& key, const KvShape& shape, std::span<const std::byte> payload) {
  if (!CanStore(key.encoding, shape, key.calibration_id))
    return Fail(ErrorCode::kInvalidArgument, "KV record: encoding, calibration id and head sizes do not fit together");
  if (payload.size() != shape.PayloadBytes(key.token_ids.size(), key.encoding))
    return Fail(ErrorCode::kInvalidArgument, "KV record: token ids and payload differ in length");
  if (Status sizes = CheckSizes(shape, key.token_ids.size(), key.name_space.size(), key.fact_id.size()); !sizes)
    return Fail(ErrorCode::kInvalidArgument, sizes.error().message);

  std::string header(RecordHeaderBytes(key.name_space.size(), key.fact_id.size(), key.token_ids.size()), '\0');
  std::memcpy(header.data() + kAtMagic, kMagic.data(), kMagic.size());
  PutField(header, kAtVersion, kFormatVersion);
  PutField(header, kAtHeaderBytes, static_cast<uint32_t>(header.size()));
  PutField(header, kAtPayloadBytes, static_cast<uint64_t>(payload.size()));
  PutField(header, kAtPayloadChecksum, Checksum64(payload.data(), payload.size()));
  PutField(header, kAtRecordId, key.Id());
  PutField(header, kAtModelKey, key.model_key);
  PutField(header, kAtCalibration, key.calibration_id);
  PutField(header, kAtWindow, key.window_digest);
  PutField(header, kAtContentVersion, key.content_version);
  PutField(header, kAtTokens, static_cast<uint32_t>(key.token_ids.size()));
  PutField(header, kAtLayers, shape.layers);
  PutField(header, kAtKvHeads, shape.kv_heads);
  PutField(header, kAtKeyDim, shape.key_dim);
  PutField(header, kAtValueDim, shape.value_dim);
  PutField(header, kAtLayout, kLayoutHeadMajor);
  PutField(header, kAtKeyEncoding, static_cast<uint8_t>(key.encoding));
  PutField(header, kAtValueEncoding, static_cast<uint8_t>(key.encoding));
  PutField(header, kAtNamespaceBytes, static_cast<uint16_t>(key.name_space.size()));
  PutField(header, kAtFactIdBytes, static_cast<uint16_t>(key.fact_id.size()));
  const std::string names = key.name_space + key.fact_id;
  std::memcpy(header.data() + kRecordFixedBytes, names.data(), names.size());
  std::memcpy(header.data() + kRecordFixedBytes + (names.size() + 3) / 4 * 4, key.token_ids.data(),
              key.token_ids.size() * sizeof(TokenId));
  const size_t at_checksum = header.size() - sizeof(uint64_t);
  PutField(header, at_checksum, Checksum64(header.data(), at_checksum));
  return header;
}

Result<RecordSizes> DecodeRecordSizes(std::string_view fixed, uint64_t file_bytes) {
  if (file_bytes < kRecordFixedBytes || fixed.size() < kRecordFixedBytes)
    return Corrupt("the file ends within its header");
  if (fixed.substr(kAtMagic, kMagic.size()) != kMagic) return Corrupt("the file does not begin as one");
  if (const auto version = GetField<uint32_t>(fixed, kAtVersion); version != kFormatVersion)
    return Fail(ErrorCode::kVersionUnsupported,
                "KV record: format version " + std::to_string(version) +
                    " is not known to this program; delete the file and it is made again");
  RecordSizes sizes;
  sizes.header_bytes = GetField<uint32_t>(fixed, kAtHeaderBytes);
  sizes.payload_bytes = GetField<uint64_t>(fixed, kAtPayloadBytes);
  sizes.payload_checksum = GetField<uint64_t>(fixed, kAtPayloadChecksum);
  sizes.tokens = GetField<uint32_t>(fixed, kAtTokens);
  sizes.shape = {GetField<uint32_t>(fixed, kAtLayers), GetField<uint32_t>(fixed, kAtKvHeads),
                 GetField<uint32_t>(fixed, kAtKeyDim), GetField<uint32_t>(fixed, kAtValueDim)};
  sizes.namespace_bytes = GetField<uint16_t>(fixed, kAtNamespaceBytes);
  sizes.fact_id_bytes = GetField<uint16_t>(fixed, kAtFactIdBytes);
  TRY(CheckSizes(sizes.shape, sizes.tokens, sizes.namespace_bytes, sizes.fact_id_bytes));
  if (sizes.header_bytes != RecordHeaderBytes(sizes.namespace_bytes, sizes.fact_id_bytes, sizes.tokens))
    return Corrupt("the header's length does not fit its content");
  sizes.encoding = static_cast<KvEncoding>(GetField<uint8_t>(fixed, kAtKeyEncoding));
  if (!CanStore(sizes.encoding, sizes.shape, GetField<Hash128>(fixed, kAtCalibration)))
    return Corrupt("its encoding is not known, or does not fit its calibration or head sizes");
  if (sizes.payload_bytes != sizes.shape.PayloadBytes(sizes.tokens, sizes.encoding))
    return Corrupt("the payload's length does not fit its shape");
  if (file_bytes != sizes.header_bytes + sizes.payload_bytes)
    return Corrupt("the file has " + std::to_string(file_bytes) + " bytes, not " +
                   std::to_string(sizes.header_bytes + sizes.payload_bytes));
  return sizes;
}

Result<RecordKey> DecodeRecordKey(std::string_view header, const RecordSizes& sizes) {
  const size_t at_checksum = sizes.header_bytes - sizeof(uint64_t);
  if (header.size() != sizes.header_bytes ||
      GetField<uint64_t>(header, at_checksum) != Checksum64(header.data(), at_checksum))
    return Corrupt("the header's checksum is wrong");
  if (GetField<uint8_t>(header, kAtLayout) != kLayoutHeadMajor ||
      GetField<uint8_t>(header, kAtKeyEncoding) != GetField<uint8_t>(header, kAtValueEncoding) || header[kAtZero] != 0)
    return Corrupt("its layout or encoding is not known");
  RecordKey key;
  key.name_space = header.substr(kRecordFixedBytes, sizes.namespace_bytes);
  key.fact_id = header.substr(kRecordFixedBytes + sizes.namespace_bytes, sizes.fact_id_bytes);
  key.content_version = GetField<uint32_t>(header, kAtContentVersion);
  const size_t names_end = kRecordFixedBytes + sizes.namespace_bytes + sizes.fact_id_bytes;
  const size_t at_tokens = (names_end + 3) / 4 * 4;
  const size_t tokens_end = at_tokens + sizes.tokens * sizeof(TokenId);
  key.token_ids.resize(sizes.tokens);
  std::memcpy(key.token_ids.data(), header.data() + at_tokens, sizes.tokens * sizeof(TokenId));
  // One record has one file: what lies between the fields is zero.
  if (header.substr(names_end, at_tokens - names_end).find_first_not_of('\0') != std::string_view::npos ||
      header.substr(tokens_end, at_checksum - tokens_end).find_first_not_of('\0') != std::string_view::npos)
    return Corrupt("the padding is not zero");
  key.model_key = GetField<Hash128>(header, kAtModelKey);
  key.encoding = sizes.encoding;
  key.calibration_id = GetField<Hash128>(header, kAtCalibration);
  key.window_digest = GetField<Hash128>(header, kAtWindow);
  if (key.Id() != GetField<Hash128>(header, kAtRecordId)) return Corrupt("the record id does not fit the key");
  return key;
}

}  // namespace inferscale
