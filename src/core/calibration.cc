#include "core/calibration.h"

#include <cstring>

#include "base/fields.h"
#include "base/limits.h"

namespace inferscale {

static_assert(sizeof(KeyChannel) == 4, "channels are copied as they lie in memory");

namespace {

constexpr std::string_view kMagic("\x89ISCA\r\n\x1A", 8);  // text-mode transfers damage it visibly
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 64;
constexpr size_t kIdBytes = 16;

enum : size_t {
  kAtVersion = 8,
  kAtEncoding = 12,
  kAtModelKey = 16,
  kAtTokens = 32,
  kAtLayers = 36,
  kAtKvHeads = 40,
  kAtKeyDim = 44,
  kAtValueDim = 48,
  kAtZeros = 52,
};

// Within the limits the product is below 2^40.
size_t ChannelsOf(const KvShape& shape) { return size_t{shape.layers} * shape.kv_heads * shape.key_dim; }

// Empty, or what is wrong.
std::string SizesFault(KvEncoding encoding, const KvShape& shape) {
  if (!IsQuantised(encoding)) return "the encoding is neither int8 nor int4";
  const auto within = [](uint32_t value, uint32_t maximum) { return value >= 1 && value <= maximum; };
  if (!within(shape.layers, limits::kModelLayers) || !within(shape.kv_heads, limits::kModelKvHeads) ||
      !within(shape.key_dim, limits::kHeadDim) || !within(shape.value_dim, limits::kHeadDim))
    return "layers, heads or head sizes are beyond the limits";
  if (ChannelsOf(shape) * sizeof(KeyChannel) + kHeaderBytes + kIdBytes > kCalibrationBytesMax)
    return "it has too many channels";
  if (!shape.CanStoreAs(encoding)) return "int4 needs even head sizes";
  return {};
}

bool IsUsable(const KeyChannel& channel) {
  constexpr uint16_t kInfinity = 0x7C00;
  return channel.scale > 0 && channel.scale < kInfinity && (channel.zero & 0x7FFF) < kInfinity;
}

}  // namespace

Result<Calibration> Calibration::Make(const ModelKey& model_key, KvEncoding encoding, const KvShape& shape,
                                      uint32_t tokens, std::vector<KeyChannel> channels) {
  if (std::string fault = SizesFault(encoding, shape); !fault.empty())
    return Fail(ErrorCode::kInvalidArgument, "calibration: " + fault);
  if (channels.size() != ChannelsOf(shape))
    return Fail(ErrorCode::kInvalidArgument, "calibration: the number of channels does not fit the model");
  for (const KeyChannel& channel : channels)
    if (!IsUsable(channel))
      return Fail(ErrorCode::kInvalidArgument, "calibration: a scale is not positive, or a number not finite");
  Calibration made;
  made.model_key_ = model_key;
  made.encoding_ = encoding;
  made.shape_ = shape;
  made.tokens_ = tokens;
  made.channels_ = std::move(channels);
  made.id_ = HashBytes(made.Body());
  return made;
}

// All but the id.
std::string Calibration::Body() const {
  const size_t channel_bytes = channels_.size() * sizeof(KeyChannel);
  std::string bytes(kHeaderBytes + channel_bytes, '\0');
  std::memcpy(bytes.data(), kMagic.data(), kMagic.size());
  PutField(bytes, kAtVersion, kVersion);
  PutField(bytes, kAtEncoding, static_cast<uint32_t>(encoding_));
  PutField(bytes, kAtModelKey, model_key_);
  PutField(bytes, kAtTokens, tokens_);
  PutField(bytes, kAtLayers, shape_.layers);
  PutField(bytes, kAtKvHeads, shape_.kv_heads);
  PutField(bytes, kAtKeyDim, shape_.key_dim);
  PutField(bytes, kAtValueDim, shape_.value_dim);
  std::memcpy(bytes.data() + kHeaderBytes, channels_.data(), channel_bytes);
  return bytes;
}

std::string Calibration::Serialize() const {
  std::string bytes = Body();
  bytes.resize(bytes.size() + kIdBytes);
  PutField(bytes, bytes.size() - kIdBytes, id_);
  return bytes;
}

Result<Calibration> Calibration::Parse(std::string_view bytes) {
  const auto corrupt = [](const std::string& what) { return Fail(ErrorCode::kCorrupt, "calibration: " + what); };
  if (bytes.size() < kHeaderBytes + kIdBytes) return corrupt("the file ends within its header");
  if (bytes.substr(0, kMagic.size()) != kMagic) return corrupt("the file does not begin as one");
  if (const auto version = GetField<uint32_t>(bytes, kAtVersion); version != kVersion)
    return Fail(ErrorCode::kVersionUnsupported,
                "calibration: format version " + std::to_string(version) + " is not known to this program");
  const KvShape shape = {GetField<uint32_t>(bytes, kAtLayers), GetField<uint32_t>(bytes, kAtKvHeads),
                         GetField<uint32_t>(bytes, kAtKeyDim), GetField<uint32_t>(bytes, kAtValueDim)};
  const auto encoding = GetField<uint32_t>(bytes, kAtEncoding);
  if (encoding > static_cast<uint32_t>(KvEncoding::kInt4)) return corrupt("its encoding is not known");
  const auto known = static_cast<KvEncoding>(encoding);
  if (const std::string fault = SizesFault(known, shape); !fault.empty()) return corrupt(fault);
  const size_t body = kHeaderBytes + ChannelsOf(shape) * sizeof(KeyChannel);
  if (bytes.size() != body + kIdBytes) return corrupt("its length does not fit its sizes");
  if (HashBytes(bytes.substr(0, body)) != GetField<Hash128>(bytes, body)) return corrupt("its digest is wrong");
  if (bytes.substr(kAtZeros, kHeaderBytes - kAtZeros).find_first_not_of('\0') != std::string_view::npos)
    return corrupt("the padding is not zero");
  std::vector<KeyChannel> channels(ChannelsOf(shape));
  std::memcpy(channels.data(), bytes.data() + kHeaderBytes, channels.size() * sizeof(KeyChannel));
  auto made = Make(GetField<Hash128>(bytes, kAtModelKey), known, shape, GetField<uint32_t>(bytes, kAtTokens),
                   std::move(channels));
  if (!made) return corrupt(made.error().message);
  return made;
}

}  // namespace inferscale
