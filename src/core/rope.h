// Rotary position embedding: the parameters of every layer, the cos/sin table, and the double-precision reference.
//
// Rotation of the pair (x0, x1) at position p by the angle t(p, i) of pair i:
//   y0 = x0 * c - x1 * s      c = m * cos t, s = m * sin t
//   y1 = x0 * s + x1 * c
// Angle and magnitude (YaRN, arXiv 2309.00071, sections 3.2 to 3.4; plain rope is ext_factor 0, freq_scale 1):
//   extrapolated(i) = p * base^(-2i/rotary_dims) / factor(i)
//   interpolated(i) = freq_scale * extrapolated(i)
//   r(i)            = ext_factor * (1 - clamp((i - low) / max(0.001, high - low), 0, 1))
//   t               = interpolated * (1 - r) + extrapolated * r
//   m               = attn_factor * (ext_factor != 0 ? 1 + 0.1 * ln(1 / freq_scale) : 1)
//   low             = max(0, floor(d(beta_fast))), high = min(rotary_dims - 1, ceil(d(beta_slow)))
//   d(rotations)    = rotary_dims * ln(context_original / (rotations * 2 pi)) / (2 ln base)
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace inferscale {

enum class RopePairing : uint8_t {
  kNone = 0,         // the layer does not rotate (SmolLM3, Llama 4: some layers)
  kNeoxHalves = 1,   // pair i is (x[i], x[i + rotary_dims / 2])
  kInterleaved = 2,  // pair i is (x[2i], x[2i + 1])
};

// One set of rope parameters. Elements from rotary_dims on are left as they are (partial rotary).
struct RopeVariant {
  RopePairing pairing = RopePairing::kNone;
  uint32_t rotary_dims = 0;       // even, <= key_dim
  uint32_t context_original = 0;  // tokens; only YaRN uses it
  float base = 10000.0f;          // theta
  float freq_scale = 1.0f;        // 1 / the linear scaling factor
  float ext_factor = 0.0f;        // 0: no YaRN
  float attn_factor = 1.0f;
  float beta_fast = 32.0f;
  float beta_slow = 1.0f;
  std::vector<float> freq_factors;  // [rotary_dims / 2], divides the angle (Llama 3, LongRoPE); empty: all 1

  bool operator==(const RopeVariant&) const = default;
};

struct RopeSpec {
  std::vector<RopeVariant> variants;    // distinct ones, in order of first use
  std::vector<uint8_t> layer_variant;   // [layers] index into variants

  bool operator==(const RopeSpec&) const = default;
  // Adds a layer's parameters, sharing an equal variant. At most 256 distinct ones.
  void AddLayer(const RopeVariant& variant);
  void AddTo(Hasher& hasher) const;
  std::string Describe() const;  // "interleaved, 64 dims, theta 100000" for doctor and logs
};

// kInvalidArgument with the reason when a variant cannot be rotated by us.
Status CheckRope(const RopeSpec& spec, uint32_t layers, uint32_t key_dim);

// cos and sin for positions [0, positions) of every variant. Angles follow the engine's own arithmetic (llama.cpp steps
// the angle from pair to pair by single-precision products), so that our rotated keys differ from the engine's by the
// rounding of the stored key only. 4 * rotary_dims bytes per position and variant: 2 MiB for 8,192 positions of 64.
class RopeTable {
 public:
  RopeTable() = default;
  RopeTable(const RopeSpec& spec, uint32_t positions);

  uint32_t positions() const { return positions_; }
  // [rotary_dims / 2] cosines, then as many sines, both times m; nullptr for a variant that does not rotate.
  const float* Row(size_t variant, uint32_t position) const;
  // Floats from one position's row to the next.
  size_t RowStride(size_t variant) const { return row_floats_[variant]; }

 private:
  uint32_t positions_ = 0;
  std::vector<size_t> row_floats_;            // [variants]
  std::vector<std::vector<float>> tables_;    // [variants][positions * row_floats]
};

// The reference: rotates one head's key in double precision, straight from the formulas above. x: [>= rotary_dims].
void RotateReference(const RopeVariant& variant, double position, std::span<double> x);
// Its exact inverse: the transposed rotation divided by c*c + s*s.
void UnrotateReference(const RopeVariant& variant, double position, std::span<double> x);

}  // namespace inferscale
