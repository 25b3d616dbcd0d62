// bf16 and fp8 e4m3 <-> f32, one value at a time: for the CPU's side of the cache kernels. IEEE half: convert.h.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace inferscale::kernels {

inline float Bf16ToF32(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

// Nearest even; NaN stays NaN.
inline uint16_t F32ToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return static_cast<uint16_t>((bits >> 16) | 0x40);
  // Just under half of what is cut off, one more if the last bit that stays is odd.
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

// e4m3 without infinities: sign, 4 bits of exponent (bias 7), 3 of mantissa; 0x7F and 0xFF are NaN, 448 the largest.
inline float Fp8ToF32(uint8_t bits) {
  const int exponent = (bits >> 3) & 15, mantissa = bits & 7;
  const float sign = bits & 0x80 ? -1.0f : 1.0f;
  if (exponent == 15 && mantissa == 7) return std::bit_cast<float>(0x7FC00000u);
  return sign * (exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                               : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10));
}

// Nearest even; what is beyond 448 becomes 448, as the engines' own conversion does.
inline uint8_t F32ToFp8(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7F;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448.0f) return sign | 0x7E;
  const int exponent = magnitude < 0x1p-6f ? -6 : std::ilogb(magnitude);
  // In eighths of the exponent's power of two; below 2^-6 the subnormals' step is the same 2^-9.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 3 - exponent)));
  return static_cast<uint8_t>(sign | ((exponent + 6) * 8 + steps));  // 16 steps carry into the exponent
}

}  // namespace inferscale::kernels
