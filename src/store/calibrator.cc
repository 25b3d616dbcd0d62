#include "store/calibrator.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/cpu/convert.h"

namespace inferscale {

namespace {

constexpr int16_t kInfinity = 0x7C00;
constexpr double kHalfMax = 65504.0;

// Halves are a sign and a magnitude whose bits grow with it.
int16_t Ordered(uint16_t half) {
  const auto magnitude = static_cast<int16_t>(half & 0x7FFF);
  return static_cast<int16_t>(half & 0x8000 ? -magnitude : magnitude);
}
double ValueOf(int16_t ordered) {
  const auto magnitude = static_cast<uint16_t>(std::abs(ordered));
  return kernels::F16ToF32Scalar(static_cast<uint16_t>(ordered < 0 ? magnitude | 0x8000 : magnitude));
}

// Puts `value` among those that come first by `before`, if it is one of them.
template <size_t n, class Before>
void Insert(std::array<int16_t, n>& sorted, int16_t value, Before before) {
  if (!before(value, sorted.back())) return;
  size_t at = n - 1;
  for (; at > 0 && before(value, sorted[at - 1]); --at) sorted[at] = sorted[at - 1];
  sorted[at] = value;
}

// The value at a place between two neighbours, linearly.
template <size_t n>
double At(const std::array<int16_t, n>& sorted, double place) {
  const auto below = static_cast<size_t>(place);
  const double first = ValueOf(sorted[below]), second = ValueOf(sorted[below + 1]);
  return first + (second - first) * (place - static_cast<double>(below));
}

// The distance of neighbouring halves at this magnitude: finer steps would store nothing.
double HalfSpacing(double magnitude) {
  constexpr double kSmallest = 0x1.0p-24;
  return magnitude < 0x1.0p-14 ? kSmallest : std::ldexp(1.0, std::ilogb(magnitude) - 10);
}

uint16_t HalfAtLeast(double positive) {
  const uint16_t nearest = kernels::F32ToF16Scalar(static_cast<float>(positive));
  return kernels::F16ToF32Scalar(nearest) < positive ? static_cast<uint16_t>(nearest + 1) : nearest;
}

}  // namespace

Calibrator::Calibrator(const ModelKey& model_key, const KvShape& shape) : model_key_(model_key), shape_(shape) {
  Tails none;
  none.lowest.fill(std::numeric_limits<int16_t>::max());
  none.highest.fill(std::numeric_limits<int16_t>::min());
  channels_.assign(size_t{shape.layers} * shape.kv_heads * shape.key_dim, none);
}

Status Calibrator::Add(const KvPayload& payload) {
  if (payload.shape() != shape_)
    return Fail(ErrorCode::kInvalidArgument, "calibration: a record has another shape than the model");
  if (payload.tokens() > limits::kCalibrationTokensMax - tokens_)
    return Fail(ErrorCode::kTooLarge, "calibration: more than " + std::to_string(limits::kCalibrationTokensMax) +
                                          " tokens; fewer are enough");
  const uint16_t* elements = payload.data();
  if (std::any_of(elements, elements + payload.elements(), [](uint16_t e) { return (e & 0x7FFF) >= kInfinity; }))
    return Fail(ErrorCode::kInvalidArgument, "calibration: a record has an element that is infinite or NaN");
  for (uint32_t head = 0; head < shape_.kv_heads; ++head)
    for (uint32_t layer = 0; layer < shape_.layers; ++layer) {
      Tails* row = channels_.data() + (size_t{layer} * shape_.kv_heads + head) * shape_.key_dim;
      const uint16_t* key = payload.Key(head, layer);
      for (uint32_t t = 0; t < payload.tokens(); ++t)
        for (uint32_t d = 0; d < shape_.key_dim; ++d, ++key) {
          const int16_t value = Ordered(*key);
          Insert(row[d].lowest, value, std::less<>());
          Insert(row[d].highest, value, std::greater<>());
        }
    }
  tokens_ += payload.tokens();
  return {};
}

// The range's middle stays when its steps are widened to what a half can say.
KeyChannel Calibrator::ChannelOf(const Tails& tails, double top) const {
  const double place = kShare * (tokens_ - 1);
  const double low = At(tails.lowest, place), high = At(tails.highest, place);
  const double step = std::max((high - low) / top, HalfSpacing(std::max(std::fabs(low), std::fabs(high))));
  KeyChannel channel;
  channel.scale = HalfAtLeast(step);
  const double zero = (low + high) / 2 - kernels::F16ToF32Scalar(channel.scale) * top / 2;
  channel.zero = kernels::F32ToF16Scalar(static_cast<float>(std::clamp(zero, -kHalfMax, kHalfMax)));
  return channel;
}

Result<Calibration> Calibrator::Finish(KvEncoding encoding) const {
  if (tokens_ < limits::kCalibrationTokensMin)
    return Fail(ErrorCode::kInvalidArgument, "calibration: it was given " + std::to_string(tokens_) +
                                                 " tokens and needs " + std::to_string(limits::kCalibrationTokensMin));
  const double top = encoding == KvEncoding::kInt4 ? 15.0 : 255.0;
  std::vector<KeyChannel> channels;
  channels.reserve(channels_.size());
  for (const Tails& tails : channels_) channels.push_back(ChannelOf(tails, top));
  return Calibration::Make(model_key_, encoding, shape_, tokens_, std::move(channels));
}

}  // namespace inferscale
