// IEEE half in vectors, for the target that Highway is compiling. Included once per target by the kernels' .cc files.
//
// Highway converts by one instruction where the CPU has one; its emulation for older x86 (before F16C) truncates and
// loses NaN, so there the two conversions are done here, equal bit by bit to the scalar ones.
#if defined(INFERSCALE_KERNELS_CPU_F16_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef INFERSCALE_KERNELS_CPU_F16_INL_H_
#undef INFERSCALE_KERNELS_CPU_F16_INL_H_
#else
#define INFERSCALE_KERNELS_CPU_F16_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"

// Better x86 targets have smaller numbers; AVX2 is the first whose users all have F16C.
#undef INFERSCALE_NATIVE_F16
#if (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2 && !defined(HWY_DISABLE_F16C)) || HWY_ARCH_ARM_A64
#define INFERSCALE_NATIVE_F16 1
#else
#define INFERSCALE_NATIVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// bits: as many half values as D has floats.
template <class D, class V>
HWY_INLINE hn::VFromD<D> FloatOfHalf(D df, V bits) {
#if INFERSCALE_NATIVE_F16
  return hn::PromoteTo(df, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), bits));
#else
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto wide = hn::PromoteTo(du, bits);
  const auto sign = hn::ShiftLeft<16>(hn::And(wide, hn::Set(du, 0x8000)));
  const auto magnitude = hn::And(wide, hn::Set(du, 0x7FFF));
  const auto rebias = hn::Set(du, (127 - 15) << 23);
  const auto normal = hn::Add(hn::ShiftLeft<13>(magnitude), rebias);
  const auto special = hn::Add(normal, rebias);  // infinity and NaN: exponent 31 becomes 255
  const auto quiet = hn::Or(special, hn::Set(du, 1u << 22));
  // Subnormal halves are integers times 2^-24: exact.
  const auto subnormal =
      hn::BitCast(du, hn::Mul(hn::ConvertTo(df, hn::BitCast(di, magnitude)), hn::Set(df, 0x1.0p-24f)));
  auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x0400)), subnormal, normal);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7BFF)), special, out);
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7C00)), quiet, out);
  return hn::BitCast(df, hn::Or(out, sign));
#endif
}

// Nearest even. Returns as many half values as D has floats.
template <class D, class V>
HWY_INLINE hn::VFromD<hn::Rebind<uint16_t, D>> HalfOfFloat(D df, V value) {
  const hn::Rebind<uint16_t, D> dh;
#if INFERSCALE_NATIVE_F16
  (void)df;
  return hn::BitCast(dh, hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), value));
#else
  const hn::RebindToUnsigned<D> du;
  const hn::RebindToSigned<D> di;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7FFFFFFF));
  const auto sign = hn::ShiftRight<16>(hn::Xor(bits, magnitude));
  // Normal: add just under half of the 13 bits that go, one more if the last bit that stays is odd. A carry out of the
  // mantissa raises the exponent, at the top to infinity.
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1));
  const auto rounded = hn::Add(hn::Add(magnitude, hn::Set(du, 0x0FFF)), odd);
  const auto normal = hn::ShiftRight<13>(hn::Sub(rounded, hn::Set(du, (127 - 15) << 23)));
  // Subnormal: the unit in the last place of 0.5 is 2^-24, the subnormal halves' step, so adding 0.5 rounds to it.
  const auto half = hn::Set(df, 0.5f);
  const auto subnormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(du, half));
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 0x03FF));
  const auto nan = hn::Or(payload, hn::Set(du, 0x7E00));
  auto out = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000)), subnormal, normal);      // below 2^-14
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477FFFFF)), hn::Set(du, 0x7C00), out);    // 65,536 and more
  out = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7F800000)), nan, out);
  return hn::DemoteTo(dh, hn::BitCast(di, hn::Or(out, sign)));
#endif
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
