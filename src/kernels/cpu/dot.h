// Scores of one query against many vectors.
#pragma once

#include <cstddef>

namespace inferscale::kernels {

// scores[i] = sum over d of query[d] * vectors[i * dim + d], accumulated in f32. Deterministic for a given CPU target:
// the score of a vector does not depend on its neighbours.
void DotF32(const float* query, const float* vectors, size_t count, size_t dim, float* scores);
void DotF32Scalar(const float* query, const float* vectors, size_t count, size_t dim, float* scores);

}  // namespace inferscale::kernels
