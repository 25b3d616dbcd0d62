#include "kernels/cpu/transpose.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/transpose.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/cache_control.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
// Tiles are 8 dimensions deep (one 128-bit load per token) and as many tokens long as D has lanes (one store per
// dimension): a 256-bit vector holds tokens t and t + 8 of a dimension's row in its two halves.
constexpr size_t kTileDims = 8;
using D8 = hn::FixedTag<uint16_t, 8>;

HWY_INLINE hn::VFromD<D8> LoadTokens(D8 d, const uint16_t* src, size_t /*stride*/) { return hn::LoadU(d, src); }
#if HWY_MAX_BYTES >= 32 && !HWY_HAVE_SCALABLE
using D16 = hn::FixedTag<uint16_t, 16>;
HWY_INLINE hn::VFromD<D16> LoadTokens(D16 d, const uint16_t* src, size_t stride) {
  const D8 d8;
  return hn::Combine(d, hn::LoadU(d8, src + 8 * stride), hn::LoadU(d8, src));
}
#else
using D16 = D8;
#endif

// One tile. Three equal stages of a perfect shuffle: from (v0 … v7) to (lower and upper interleaving of v0 and v4, then
// of v1 and v5, …); after log2(8) stages element (token, dimension) has become (dimension, token).
template <class D>
HWY_INLINE void TransposeTile(D d, const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride) {
  auto v0 = LoadTokens(d, src + 0 * src_stride, src_stride), v1 = LoadTokens(d, src + 1 * src_stride, src_stride);
  auto v2 = LoadTokens(d, src + 2 * src_stride, src_stride), v3 = LoadTokens(d, src + 3 * src_stride, src_stride);
  auto v4 = LoadTokens(d, src + 4 * src_stride, src_stride), v5 = LoadTokens(d, src + 5 * src_stride, src_stride);
  auto v6 = LoadTokens(d, src + 6 * src_stride, src_stride), v7 = LoadTokens(d, src + 7 * src_stride, src_stride);
  for (int stage = 0; stage < 3; ++stage) {
    const auto w0 = hn::InterleaveLower(d, v0, v4), w1 = hn::InterleaveUpper(d, v0, v4);
    const auto w2 = hn::InterleaveLower(d, v1, v5), w3 = hn::InterleaveUpper(d, v1, v5);
    const auto w4 = hn::InterleaveLower(d, v2, v6), w5 = hn::InterleaveUpper(d, v2, v6);
    const auto w6 = hn::InterleaveLower(d, v3, v7), w7 = hn::InterleaveUpper(d, v3, v7);
    v0 = w0, v1 = w1, v2 = w2, v3 = w3, v4 = w4, v5 = w5, v6 = w6, v7 = w7;
  }
  hn::StoreU(v0, d, dst + 0 * dst_stride), hn::StoreU(v1, d, dst + 1 * dst_stride);
  hn::StoreU(v2, d, dst + 2 * dst_stride), hn::StoreU(v3, d, dst + 3 * dst_stride);
  hn::StoreU(v4, d, dst + 4 * dst_stride), hn::StoreU(v5, d, dst + 5 * dst_stride);
  hn::StoreU(v6, d, dst + 6 * dst_stride), hn::StoreU(v7, d, dst + 7 * dst_stride);
}

// Hints; the addresses need not exist. The next record's values go right behind this one's in every row of dst, one new
// line a row, and no hardware prefetcher follows 64 rows at once; asked for now, those lines are there when the caller
// comes to that record. Halves the time of a prompt from cold records (27 tokens each, AVX2 and AVX-512).
HWY_INLINE void PrefetchNextRecord(const uint16_t* dst, size_t dst_stride, size_t tokens) {
  const auto row = reinterpret_cast<uintptr_t>(dst);
  for (size_t d = 0; d < kTileDims; ++d) {
    const size_t element = d * dst_stride + 2 * tokens - 1;  // the last one, if that record is as long as this
    hwy::Prefetch(reinterpret_cast<const uint16_t*>(row + element * sizeof(uint16_t)));
  }
}

// The first tile wants a line of every token at once: ask for them together. At most 32 tokens, 64 lines of 64-element
// values; of longer runs the hardware sees a stream.
HWY_INLINE void PrefetchSource(const uint16_t* src, size_t src_stride, size_t tokens, size_t dims) {
  constexpr size_t kLineElements = 32;
  for (size_t t = 0; t < std::min<size_t>(tokens, 32); ++t) {
    for (size_t d = 0; d < dims; d += kLineElements) hwy::Prefetch(src + t * src_stride + d);
  }
}

// tokens >= lanes and dims >= 8. The last tile of either direction is moved back to end at the edge: it writes some
// elements a second time, with the same values, and no tail needs code of its own.
template <class D>
HWY_INLINE void TransposeTiles(D d, const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride,
                               size_t tokens, size_t dims) {
  const size_t lanes = hn::Lanes(d);
  PrefetchSource(src, src_stride, tokens, dims);
  // Dimensions outside, tokens inside: only eight rows of dst are open at a time, so even a dst_stride that maps all
  // rows to one set of an 8-way cache does not evict a half-written line.
  for (size_t i = 0; i < dims; i += kTileDims) {
    const size_t dim = std::min(i, dims - kTileDims);
    PrefetchNextRecord(dst + dim * dst_stride, dst_stride, tokens);
    for (size_t j = 0; j < tokens; j += lanes) {
      const size_t token = std::min(j, tokens - lanes);
      TransposeTile(d, src + token * src_stride + dim, src_stride, dst + dim * dst_stride + token, dst_stride);
    }
  }
}
#endif  // HWY_TARGET != HWY_SCALAR

void TransposeU16(const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride, size_t tokens,
                  size_t dims) {
#if HWY_TARGET != HWY_SCALAR
  const size_t lanes = hn::Lanes(D16());
  if (dims >= kTileDims && tokens >= 8) {
    if (tokens < lanes) return TransposeTiles(D8(), src, src_stride, dst, dst_stride, tokens, dims);
    return TransposeTiles(D16(), src, src_stride, dst, dst_stride, tokens, dims);
  }
#endif
  TransposeU16Scalar(src, src_stride, dst, dst_stride, tokens, dims);
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inferscale::kernels {

HWY_EXPORT(TransposeU16);

void TransposeU16(const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride, size_t tokens,
                  size_t dims) {
  HWY_DYNAMIC_DISPATCH(TransposeU16)(src, src_stride, dst, dst_stride, tokens, dims);
}

void TransposeU16Scalar(const uint16_t* src, size_t src_stride, uint16_t* dst, size_t dst_stride, size_t tokens,
                        size_t dims) {
  for (size_t d = 0; d < dims; ++d) {
    for (size_t t = 0; t < tokens; ++t) dst[d * dst_stride + t] = src[t * src_stride + d];
  }
}

}  // namespace inferscale::kernels
#endif  // HWY_ONCE
