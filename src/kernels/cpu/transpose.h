// Values from token-major (records) to dimension-major (an engine's cache with transposed V).
#pragma once

#include <cstddef>
#include <cstdint>

namespace inferscale::kernels {

// dst[d * dst_stride + t] = src[t * src_stride + d] for t < tokens, d < dims. Strides in elements. No element of dst
// outside that pattern is written. Fastest when called record by record along the tokens of one layer's heads: the
// lines behind dst's last column are asked for in advance.
void TransposeU16(const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride, size_t tokens, size_t dims);
void TransposeU16Scalar(const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride, size_t tokens,
                        size_t dims);

}  // namespace inferscale::kernels
