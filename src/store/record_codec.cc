#include "store/record_codec.h"

#include "base/assert.h"
#include "kernels/cpu/kv_quant.h"

namespace inferscale {

namespace {

using kernels::KeyQuant;
using kernels::PayloadEncoding;
using kernels::PayloadLayout;

static_assert(sizeof(KeyChannel) == sizeof(KeyQuant) && offsetof(KeyChannel, zero) == offsetof(KeyQuant, zero));
static_assert(static_cast<int>(KvEncoding::kInt8) == static_cast<int>(PayloadEncoding::kInt8));
static_assert(static_cast<int>(KvEncoding::kInt4) == static_cast<int>(PayloadEncoding::kInt4));

const KeyQuant* ChannelsOf(const Calibration& calibration) {
  return reinterpret_cast<const KeyQuant*>(calibration.channels().data());
}

PayloadLayout LayoutOf(const KvShape& shape, uint32_t tokens, KvEncoding encoding) {
  const PayloadLayout layout = {
      {shape.kv_heads, shape.layers, shape.key_dim, shape.value_dim}, tokens, static_cast<PayloadEncoding>(encoding)};
  INFERSCALE_ASSERT(layout.Bytes() == shape.PayloadBytes(tokens, encoding));
  return layout;
}

Status CheckFits(const KvRecord& record, KvEncoding wanted, const Calibration& calibration) {
  if (calibration.encoding() == wanted && calibration.model_key() == record.key.model_key &&
      calibration.shape() == record.payload.shape())
    return {};
  return Fail(ErrorCode::kMismatch, "KV record: the calibration is of another model or encoding");
}

Status Quantise(const KvRecord& record, const Calibration& calibration, EncodedRecord& encoded) {
  const KvShape& shape = record.payload.shape();
  const PayloadLayout layout = LayoutOf(shape, record.tokens(), calibration.encoding());
  encoded.quantised.emplace(layout.Bytes());
  auto* to = reinterpret_cast<uint8_t*>(encoded.quantised->bytes().data());
  const auto result = kernels::QuantisePayload(record.payload.data(), layout, ChannelsOf(calibration), to);
  if (!result.finite) return Fail(ErrorCode::kInvalidArgument, "KV record: an element is infinite or NaN");
  encoded.key_values = uint64_t{shape.kv_heads} * shape.layers * shape.key_dim * record.tokens();
  encoded.clipped = result.clipped;
  return {};
}

Status CheckCalibration(const RecordView& view, const Calibration* calibration) {
  if (calibration == nullptr || calibration->id() != view.key.calibration_id)
    return Fail(ErrorCode::kMismatch, "KV record: it was made with calibration " + view.key.calibration_id.Hex() +
                                          ", " + (calibration ? calibration->id().Hex() : "none") +
                                          " is in use; its fact has to be encoded again");
  if (calibration->model_key() != view.key.model_key || calibration->shape() != view.shape ||
      calibration->encoding() != view.key.encoding)
    return Fail(ErrorCode::kCorrupt, "KV record: its calibration is of another model, shape or encoding");
  return {};
}

}  // namespace

Result<EncodedRecord> EncodeRecord(const KvRecord& record, KvEncoding wanted, const Calibration* calibration) {
  if (record.key.encoding != KvEncoding::kF16 || record.key.token_ids.size() != record.tokens())
    return Fail(ErrorCode::kInvalidArgument, "KV record: it came from a quantised one, or its tokens do not fit");
  if (wanted != KvEncoding::kF16 && !IsQuantised(wanted))
    return Fail(ErrorCode::kInvalidArgument, "KV record: this encoding cannot be stored");
  const KvPayload& payload = record.payload;
  EncodedRecord encoded;
  encoded.key = record.key;
  encoded.payload = {reinterpret_cast<const std::byte*>(payload.data()), payload.bytes()};
  if (IsQuantised(wanted) && calibration != nullptr) {
    TRY(CheckFits(record, wanted, *calibration));
    TRY(Quantise(record, *calibration, encoded));
    if (encoded.clipped_share() <= kClippedShareMax) {
      encoded.key.encoding = wanted;
      encoded.key.calibration_id = calibration->id();
      encoded.payload = encoded.quantised->bytes();
    } else {
      encoded.quantised.reset();
    }
  }
  TRY_ASSIGN(encoded.header, SerializeRecordHeader(encoded.key, payload.shape(), encoded.payload));
  return encoded;
}

Result<KvRecord> DecodeRecord(std::span<const std::byte> bytes, std::shared_ptr<const void> owner,
                              const Calibration* calibration) {
  INFERSCALE_ASSERT(owner != nullptr && reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0);
  TRY_ASSIGN(RecordView view, ViewRecordBytes(bytes));
  const auto tokens = static_cast<uint32_t>(view.key.token_ids.size());
  if (!IsQuantised(view.key.encoding)) {
    const auto* elements = reinterpret_cast<const uint16_t*>(view.payload.data());
    return KvRecord{std::move(view.key), KvPayload(view.shape, tokens, elements, std::move(owner))};
  }
  TRY(CheckCalibration(view, calibration));
  KvRecord record{std::move(view.key), KvPayload(view.shape, tokens)};
  kernels::DequantisePayload(reinterpret_cast<const uint8_t*>(view.payload.data()),
                             LayoutOf(view.shape, tokens, record.key.encoding), ChannelsOf(*calibration),
                             record.payload.data());
  return record;
}

}  // namespace inferscale
