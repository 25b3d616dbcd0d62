#include "kernels/cpu/dot.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/dot.cc"
#include "hwy/foreach_target.h"  // compiles this file once per target
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace inferscale::kernels::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::VFromD<D>;

// The last dim % lanes elements, zeros behind them.
HWY_INLINE V LoadTail(D d, const float* src, size_t count) {
  HWY_ALIGN float padded[hn::MaxLanes(D())] = {};
  std::memcpy(padded, src, count * sizeof(float));
  return hn::Load(d, padded);
}

// Four vectors at once share the query's loads; with two accumulators each there are eight independent chains, as many
// as two FMA units of latency 4 keep busy.
HWY_INLINE void DotFour(const float* HWY_RESTRICT query, const float* HWY_RESTRICT vectors, size_t dim,
                        float* HWY_RESTRICT scores) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  const float* r0 = vectors;
  const float* r1 = r0 + dim;
  const float* r2 = r1 + dim;
  const float* r3 = r2 + dim;
  V a0 = hn::Zero(d), a1 = a0, a2 = a0, a3 = a0, b0 = a0, b1 = a0, b2 = a0, b3 = a0;
  size_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    const V q = hn::LoadU(d, query + i);
    a0 = hn::MulAdd(q, hn::LoadU(d, r0 + i), a0);
    a1 = hn::MulAdd(q, hn::LoadU(d, r1 + i), a1);
    a2 = hn::MulAdd(q, hn::LoadU(d, r2 + i), a2);
    a3 = hn::MulAdd(q, hn::LoadU(d, r3 + i), a3);
    const size_t j = i + lanes;
    const V p = hn::LoadU(d, query + j);
    b0 = hn::MulAdd(p, hn::LoadU(d, r0 + j), b0);
    b1 = hn::MulAdd(p, hn::LoadU(d, r1 + j), b1);
    b2 = hn::MulAdd(p, hn::LoadU(d, r2 + j), b2);
    b3 = hn::MulAdd(p, hn::LoadU(d, r3 + j), b3);
  }
  for (; i < dim; i += lanes) {
    const size_t count = HWY_MIN(lanes, dim - i);
    const V q = LoadTail(d, query + i, count);
    a0 = hn::MulAdd(q, LoadTail(d, r0 + i, count), a0);
    a1 = hn::MulAdd(q, LoadTail(d, r1 + i, count), a1);
    a2 = hn::MulAdd(q, LoadTail(d, r2 + i, count), a2);
    a3 = hn::MulAdd(q, LoadTail(d, r3 + i, count), a3);
  }
  scores[0] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a0, b0)));
  scores[1] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a1, b1)));
  scores[2] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a2, b2)));
  scores[3] = hn::GetLane(hn::SumOfLanes(d, hn::Add(a3, b3)));
}

// The same operations in the same order for one vector, so that its score does not depend on where it stands.
HWY_INLINE float DotOne(const float* HWY_RESTRICT query, const float* HWY_RESTRICT vector, size_t dim) {
  const D d;
  const size_t lanes = hn::Lanes(d);
  V a = hn::Zero(d), b = a;
  size_t i = 0;
  for (; i + 2 * lanes <= dim; i += 2 * lanes) {
    a = hn::MulAdd(hn::LoadU(d, query + i), hn::LoadU(d, vector + i), a);
    b = hn::MulAdd(hn::LoadU(d, query + i + lanes), hn::LoadU(d, vector + i + lanes), b);
  }
  for (; i < dim; i += lanes) {
    const size_t count = HWY_MIN(lanes, dim - i);
    a = hn::MulAdd(LoadTail(d, query + i, count), LoadTail(d, vector + i, count), a);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
}

void DotF32(const float* HWY_RESTRICT query, const float* HWY_RESTRICT vectors, size_t count, size_t dim,
            float* HWY_RESTRICT scores) {
  size_t i = 0;
  for (; i + 4 <= count; i += 4) DotFour(query, vectors + i * dim, dim, scores + i);
  for (; i < count; ++i) scores[i] = DotOne(query, vectors + i * dim, dim);
}

}  // namespace inferscale::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace inferscale::kernels {

HWY_EXPORT(DotF32);

void DotF32(const float* query, const float* vectors, size_t count, size_t dim, float* scores) {
  HWY_DYNAMIC_DISPATCH(DotF32)(query, vectors, count, dim, scores);
}

void DotF32Scalar(const float* query, const float* vectors, size_t count, size_t dim, float* scores) {
  for (size_t i = 0; i < count; ++i) {
    float sum = 0.0f;
    for (size_t d = 0; d < dim; ++d) sum += query[d] * vectors[i * dim + d];
    scores[i] = sum;
  }
}

}  // namespace inferscale::kernels
#endif  // HWY_ONCE
