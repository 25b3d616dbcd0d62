#include "kernels/cpu/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/convert.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/highway.h"
#include "kernels/cpu/f16-inl.h"

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

void F32ToF16(const float* HWY_RESTRICT src, uint16_t* HWY_RESTRICT dst, size_t count) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(HalfOfFloat(df, hn::LoadU(df, src + i)), dh, dst + i);
  for (; i < count; ++i) dst[i] = F32ToF16Scalar(src[i]);
}

void F16ToF32(const uint16_t* HWY_RESTRICT src, float* HWY_RESTRICT dst, size_t count) {
  const hn::ScalableTag<float> df;
  const hn::Rebind<uint16_t, decltype(df)> dh;
  const size_t lanes = hn::Lanes(df);
  size_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(FloatOfHalf(df, hn::LoadU(dh, src + i)), df, dst + i);
  for (; i < count; ++i) dst[i] = F16ToF32Scalar(src[i]);
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <bit>
#include <cmath>

namespace inferscale::kernels {

HWY_EXPORT(F32ToF16);
HWY_EXPORT(F16ToF32);

void F32ToF16(const float* src, uint16_t* dst, size_t count) { HWY_DYNAMIC_DISPATCH(F32ToF16)(src, dst, count); }
void F16ToF32(const uint16_t* src, float* dst, size_t count) { HWY_DYNAMIC_DISPATCH(F16ToF32)(src, dst, count); }

uint16_t F32ToF16Scalar(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) return sign | 0x7E00 | ((magnitude >> 13) & 0x03FF);  // NaN, quiet, payload kept
  if (magnitude >= 0x47800000) return sign | 0x7C00;                                // 65,536 and more
  if (magnitude < 0x38800000) {  // below 2^-14: a multiple of 2^-24, nearest even being the floating-point mode
    return sign | static_cast<uint16_t>(std::nearbyint(std::bit_cast<float>(magnitude) * 0x1.0p24f));
  }
  const uint32_t rounded = magnitude + 0x0FFF + ((magnitude >> 13) & 1);
  return sign | static_cast<uint16_t>((rounded - ((127 - 15) << 23)) >> 13);
}

float F16ToF32Scalar(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  if (magnitude < 0x0400) {
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1.0p-24f));
  }
  uint32_t wide = (magnitude << 13) + ((127 - 15) << 23);
  if (magnitude >= 0x7C00) wide += (127 - 15) << 23;
  if (magnitude > 0x7C00) wide |= 1u << 22;  // quiet, as the instruction does
  return std::bit_cast<float>(sign | wide);
}

}  // namespace inferscale::kernels
#endif  // HWY_ONCE
