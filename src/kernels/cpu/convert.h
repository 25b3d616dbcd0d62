// f32 <-> IEEE half.
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale::kernels {

// Nearest even; overflow to infinity, NaN stays NaN: as the engines' own conversion does.
void F32ToF16(const float* src, uint16_t* dst, size_t count);
void F16ToF32(const uint16_t* src, float* dst, size_t count);
uint16_t F32ToF16Scalar(float value);
float F16ToF32Scalar(uint16_t bits);

}  // namespace inferscale::kernels
