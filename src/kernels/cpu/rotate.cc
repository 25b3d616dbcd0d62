#include "kernels/cpu/rotate.h"

#include <cstring>

#include "kernels/cpu/convert.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/rotate.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/cache_control.h"
#include "hwy/highway.h"
#include "kernels/cpu/f16-inl.h"

#ifndef INFERSCALE_KERNELS_CPU_ROTATE_ONCE
#define INFERSCALE_KERNELS_CPU_ROTATE_ONCE
namespace inferscale::kernels {

// One pair at *first, *second, to the same places of dst.
inline void RotatePair(const uint16_t* src, uint16_t* dst, size_t first, size_t second, float c, float s) {
  const float x0 = F16ToF32Scalar(src[first]);
  const float x1 = F16ToF32Scalar(src[second]);
  dst[first] = F32ToF16Scalar(x0 * c - x1 * s);
  dst[second] = F32ToF16Scalar(x0 * s + x1 * c);
}

}  // namespace inferscale::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

// Pairs [begin, the return value) of one key, as many as whole vectors of D hold.
template <bool kInterleaved, class D>
HWY_INLINE size_t RotatePairs(D df, const uint16_t* HWY_RESTRICT src, uint16_t* HWY_RESTRICT dst,
                              const float* HWY_RESTRICT cosines, size_t begin, size_t half) {
  const hn::Rebind<uint16_t, D> dh;
  const size_t lanes = hn::Lanes(df);
  size_t i = begin;
  for (; i + lanes <= half; i += lanes) {
    hn::VFromD<decltype(dh)> h0, h1;
    if constexpr (kInterleaved) {
      hn::LoadInterleaved2(dh, src + 2 * i, h0, h1);
    } else {
      h0 = hn::LoadU(dh, src + i);
      h1 = hn::LoadU(dh, src + half + i);
    }
    const auto c = hn::LoadU(df, cosines + i);
    const auto s = hn::LoadU(df, cosines + half + i);
    const auto x0 = FloatOfHalf(df, h0);
    const auto x1 = FloatOfHalf(df, h1);
    const auto y0 = HalfOfFloat(df, hn::MulSub(x0, c, hn::Mul(x1, s)));
    const auto y1 = HalfOfFloat(df, hn::MulAdd(x0, s, hn::Mul(x1, c)));
    if constexpr (kInterleaved) {
      hn::StoreInterleaved2(y0, y1, dh, dst + 2 * i);
    } else {
      hn::StoreU(y0, dh, dst + i);
      hn::StoreU(y1, dh, dst + half + i);
    }
  }
  return i;
}

// Rows ahead of the one in work that are asked for: 16 rows of 128 bytes are 64 lines of source and target, about what
// a core can have under way; 10 to 15 % faster on cold records than without. Behind a record's last key lie its values
// in the source and the next record's keys in the target, which the caller turns to next, so nothing stops at the end.
constexpr size_t kRowsAhead = 16;
constexpr size_t kLineBytes = 64;

// A hint: the address need not exist.
HWY_INLINE void PrefetchRow(const uint16_t* row, size_t rows_ahead, size_t stride, size_t count) {
  const uintptr_t ahead = reinterpret_cast<uintptr_t>(row) + rows_ahead * stride * sizeof(uint16_t);
  for (size_t byte = 0; byte < count * sizeof(uint16_t); byte += kLineBytes) {
    hwy::Prefetch(reinterpret_cast<const uint16_t*>(ahead + byte));
  }
}

template <bool kInterleaved>
HWY_INLINE void RotateTokens(const RotateArgs& args) {
  const size_t half = args.rotary_dims / 2;
  for (size_t t = 0; t < args.tokens; ++t) {
    const uint16_t* src = args.src + t * args.src_stride;
    uint16_t* dst = args.dst + t * args.dst_stride;
    const float* row = args.table + t * args.table_stride;
    PrefetchRow(src, kRowsAhead, args.src_stride, args.head_dim);
    PrefetchRow(dst, kRowsAhead, args.dst_stride, args.head_dim);
    size_t i = RotatePairs<kInterleaved>(hn::ScalableTag<float>(), src, dst, row, 0, half);
    i = RotatePairs<kInterleaved>(hn::CappedTag<float, 4>(), src, dst, row, i, half);
    for (; i < half; ++i) {
      RotatePair(src, dst, kInterleaved ? 2 * i : i, kInterleaved ? 2 * i + 1 : half + i, row[i], row[half + i]);
    }
    if (args.rotary_dims < args.head_dim) {
      std::memcpy(dst + args.rotary_dims, src + args.rotary_dims,
                  (args.head_dim - args.rotary_dims) * sizeof(uint16_t));
    }
  }
}

void RotateF16(const RotateArgs& args) {
  if (args.interleaved) {
    RotateTokens<true>(args);
  } else {
    RotateTokens<false>(args);
  }
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inferscale::kernels {

HWY_EXPORT(RotateF16);

void RotateF16(const RotateArgs& args) { HWY_DYNAMIC_DISPATCH(RotateF16)(args); }

void RotateF16Scalar(const RotateArgs& args) {
  const size_t half = args.rotary_dims / 2;
  for (size_t t = 0; t < args.tokens; ++t) {
    const uint16_t* src = args.src + t * args.src_stride;
    uint16_t* dst = args.dst + t * args.dst_stride;
    const float* row = args.table + t * args.table_stride;
    for (size_t i = 0; i < half; ++i) {
      const size_t first = args.interleaved ? 2 * i : i;
      const size_t second = args.interleaved ? 2 * i + 1 : half + i;
      RotatePair(src, dst, first, second, row[i], row[half + i]);
    }
    for (size_t d = args.rotary_dims; d < args.head_dim; ++d) dst[d] = src[d];
  }
}

}  // namespace inferscale::kernels
#endif  // HWY_ONCE
