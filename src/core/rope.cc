#include "core/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/assert.h"
#include "base/limits.h"

namespace inferscale {

namespace {

constexpr size_t kVariantsMax = 256;  // layer_variant holds one byte per layer

void AddVariantTo(Hasher& hasher, const RopeVariant& v) {
  hasher.U32(static_cast<uint32_t>(v.pairing)).U32(v.rotary_dims).U32(v.context_original);
  for (const float value : {v.base, v.freq_scale, v.ext_factor, v.attn_factor, v.beta_fast, v.beta_slow}) {
    hasher.F32(value);
  }
  hasher.U64(v.freq_factors.size());
  for (const float factor : v.freq_factors) hasher.F32(factor);
}

Hash128 VariantDigest(const RopeVariant& variant) {
  Hasher hasher;
  AddVariantTo(hasher, variant);
  return hasher.Finish();
}

bool IsPositive(float value) { return std::isfinite(value) && value > 0.0f; }

// The double-precision side: the header's formulas as they stand.
struct ReferencePair {
  double c = 1.0;
  double s = 0.0;
};

double ReferenceMagnitude(const RopeVariant& v) {
  const double yarn = v.ext_factor != 0.0f ? 1.0 + 0.1 * std::log(1.0 / double{v.freq_scale}) : 1.0;
  return double{v.attn_factor} * yarn;
}

// The pair index that turns `rotations` times within the original context.
double ReferencePairOf(const RopeVariant& v, double rotations) {
  const double turns = v.context_original / (rotations * 2.0 * std::numbers::pi);
  return v.rotary_dims * std::log(turns) / (2.0 * std::log(double{v.base}));
}

ReferencePair ReferenceCosSin(const RopeVariant& v, double position, size_t i) {
  const double exponent = -2.0 * static_cast<double>(i) / v.rotary_dims;
  const double factor = v.freq_factors.empty() ? 1.0 : double{v.freq_factors[i]};
  const double extrapolated = position * std::pow(double{v.base}, exponent) / factor;
  double angle = double{v.freq_scale} * extrapolated;
  if (v.ext_factor != 0.0f) {
    const double low = std::max(0.0, std::floor(ReferencePairOf(v, v.beta_fast)));
    const double high = std::min(v.rotary_dims - 1.0, std::ceil(ReferencePairOf(v, v.beta_slow)));
    const double along = (static_cast<double>(i) - low) / std::max(0.001, high - low);
    const double ramp = double{v.ext_factor} * (1.0 - std::clamp(along, 0.0, 1.0));
    angle = angle * (1.0 - ramp) + extrapolated * ramp;
  }
  const double magnitude = ReferenceMagnitude(v);
  return {magnitude * std::cos(angle), magnitude * std::sin(angle)};
}

// Elements of pair i.
std::pair<size_t, size_t> PairElements(const RopeVariant& v, size_t i) {
  if (v.pairing == RopePairing::kInterleaved) return {2 * i, 2 * i + 1};
  return {i, i + v.rotary_dims / 2};
}

// The single-precision side: what the engine computes once per call, in the order in which it computes it.
struct EngineSteps {
  float theta_scale = 1.0f;  // from one pair's angle to the next
  float magnitude = 1.0f;
  float low = 0.0f;   // YaRN: pairs below turn as trained
  float high = 0.0f;  // YaRN: pairs above are interpolated
};

float EnginePairOf(const RopeVariant& v, float rotations) {
  const float turns = static_cast<float>(v.context_original) / (rotations * 2.0f * std::numbers::pi_v<float>);
  return static_cast<float>(v.rotary_dims) * std::log(turns) / (2.0f * std::log(v.base));
}

EngineSteps StepsOf(const RopeVariant& v) {
  EngineSteps steps;
  steps.theta_scale = std::pow(v.base, -2.0f / static_cast<float>(v.rotary_dims));
  steps.magnitude = v.attn_factor;
  if (v.ext_factor != 0.0f) {
    steps.magnitude *= 1.0f + 0.1f * std::log(1.0f / v.freq_scale);
    steps.low = std::max(0.0f, std::floor(EnginePairOf(v, v.beta_fast)));
    steps.high = std::min(static_cast<float>(v.rotary_dims - 1), std::ceil(EnginePairOf(v, v.beta_slow)));
  }
  return steps;
}

// row: [half] cosines, then [half] sines.
void FillRow(const RopeVariant& v, const EngineSteps& steps, uint32_t position, float* row) {
  const size_t half = v.rotary_dims / 2;
  float stepped = static_cast<float>(position);
  for (size_t i = 0; i < half; ++i) {
    const float extrapolated = v.freq_factors.empty() ? stepped : stepped / v.freq_factors[i];
    float angle = v.freq_scale * extrapolated;
    if (v.ext_factor != 0.0f) {
      const float along = (static_cast<float>(i) - steps.low) / std::max(0.001f, steps.high - steps.low);
      const float ramp = (1.0f - std::min(1.0f, std::max(0.0f, along))) * v.ext_factor;
      angle = angle * (1.0f - ramp) + extrapolated * ramp;
    }
    row[i] = std::cos(angle) * steps.magnitude;
    row[half + i] = std::sin(angle) * steps.magnitude;
    stepped *= steps.theta_scale;
  }
}

Status CheckYarn(const RopeVariant& v) {
  if (v.ext_factor == 0.0f) return {};
  if (!IsPositive(v.ext_factor)) return Fail(ErrorCode::kInvalidArgument, "the YaRN ext factor is not positive");
  if (v.context_original == 0) return Fail(ErrorCode::kInvalidArgument, "YaRN needs the original context length");
  if (!IsPositive(v.beta_fast) || !IsPositive(v.beta_slow))
    return Fail(ErrorCode::kInvalidArgument, "the YaRN betas are not positive");
  if (!(ReferenceMagnitude(v) > 0.0))
    return Fail(ErrorCode::kInvalidArgument, "the YaRN magnitude is not positive: the scaling factor is out of range");
  return {};
}

Status CheckVariant(const RopeVariant& v, uint32_t key_dim) {
  if (v.pairing == RopePairing::kNone) return {};
  if (v.pairing != RopePairing::kNeoxHalves && v.pairing != RopePairing::kInterleaved)
    return Fail(ErrorCode::kInvalidArgument, "unknown pairing of the rotated elements");
  if (v.rotary_dims == 0 || v.rotary_dims % 2 != 0 || v.rotary_dims > key_dim)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} rotary dimensions: need an even number from 2 to the key's {}", v.rotary_dims,
                            key_dim));
  // ln(base) divides in YaRN, and a base of 1 or less would make later pairs turn faster than the first.
  if (!std::isfinite(v.base) || v.base <= 1.0f)
    return Fail(ErrorCode::kInvalidArgument, fmt::format("the base (theta) {} is not above 1", v.base));
  if (!IsPositive(v.freq_scale) || !IsPositive(v.attn_factor))
    return Fail(ErrorCode::kInvalidArgument, "the frequency scale or the attention factor is not positive");
  if (!v.freq_factors.empty() && v.freq_factors.size() != v.rotary_dims / 2)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} frequency factors for {} pairs", v.freq_factors.size(), v.rotary_dims / 2));
  if (!std::all_of(v.freq_factors.begin(), v.freq_factors.end(), IsPositive))
    return Fail(ErrorCode::kInvalidArgument, "a frequency factor is not positive");
  return CheckYarn(v);
}

std::string DescribeVariant(const RopeVariant& v) {
  if (v.pairing == RopePairing::kNone) return "no rotation";
  std::string text = fmt::format("{}, {} dims, theta {}",
                                 v.pairing == RopePairing::kInterleaved ? "interleaved" : "NeoX halves", v.rotary_dims,
                                 v.base);
  if (v.ext_factor != 0.0f) {
    text += fmt::format(", YaRN x{:g} of {} tokens", 1.0f / v.freq_scale, v.context_original);
  } else if (v.freq_scale != 1.0f) {
    text += fmt::format(", linear x{:g}", 1.0f / v.freq_scale);
  }
  if (!v.freq_factors.empty()) text += ", frequency factors";
  return text;
}

}  // namespace

void RopeSpec::AddLayer(const RopeVariant& variant) {
  // By digest, not by ==: a NaN in a broken model file must not become a new variant per layer. CheckRope refuses it.
  const Hash128 digest = VariantDigest(variant);
  const auto same = [&](const RopeVariant& known) { return VariantDigest(known) == digest; };
  const auto found = std::find_if(variants.begin(), variants.end(), same);
  const auto index = static_cast<size_t>(found - variants.begin());
  INFERSCALE_ASSERT(index < kVariantsMax);
  if (found == variants.end()) variants.push_back(variant);
  layer_variant.push_back(static_cast<uint8_t>(index));
}

void RopeSpec::AddTo(Hasher& hasher) const {
  hasher.U64(variants.size());
  for (const RopeVariant& variant : variants) AddVariantTo(hasher, variant);
  hasher.U64(layer_variant.size()).Raw(layer_variant.data(), layer_variant.size());
}

std::string RopeSpec::Describe() const {
  if (variants.size() == 1) return DescribeVariant(variants[0]);
  std::string text;
  for (size_t i = 0; i < variants.size(); ++i) {
    const auto layers = std::count(layer_variant.begin(), layer_variant.end(), static_cast<uint8_t>(i));
    text += fmt::format("{}{} ({} layer{})", i == 0 ? "" : "; ", DescribeVariant(variants[i]), layers,
                        layers == 1 ? "" : "s");
  }
  return text.empty() ? "no layers" : text;
}

Status CheckRope(const RopeSpec& spec, uint32_t layers, uint32_t key_dim) {
  if (spec.layer_variant.size() != layers)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("rope parameters for {} layers, the model has {}", spec.layer_variant.size(), layers));
  if (key_dim == 0 || key_dim > limits::kHeadDim)
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("keys of {} elements: need 1 to {}", key_dim, limits::kHeadDim));
  if (spec.variants.size() > kVariantsMax) return Fail(ErrorCode::kInvalidArgument, "too many rope variants");
  for (const uint8_t index : spec.layer_variant) {
    if (index >= spec.variants.size())
      return Fail(ErrorCode::kInvalidArgument, "a layer names a rope variant that is missing");
  }
  for (size_t i = 0; i < spec.variants.size(); ++i) {
    if (Status ok = CheckVariant(spec.variants[i], key_dim); !ok)
      return Wrap(std::move(ok).error(), fmt::format("rope variant {}", i));
  }
  return {};
}

RopeTable::RopeTable(const RopeSpec& spec, uint32_t positions) : positions_(positions) {
  for (const RopeVariant& variant : spec.variants) {
    const size_t floats = variant.pairing == RopePairing::kNone ? 0 : variant.rotary_dims;
    std::vector<float> table(floats * positions);
    if (floats > 0) {
      const EngineSteps steps = StepsOf(variant);
      for (uint32_t p = 0; p < positions; ++p) FillRow(variant, steps, p, table.data() + floats * p);
    }
    row_floats_.push_back(floats);
    tables_.push_back(std::move(table));
  }
}

const float* RopeTable::Row(size_t variant, uint32_t position) const {
  INFERSCALE_ASSERT(variant < tables_.size());
  INFERSCALE_ASSERT(position < positions_);
  if (row_floats_[variant] == 0) return nullptr;
  return tables_[variant].data() + row_floats_[variant] * position;
}

void RotateReference(const RopeVariant& variant, double position, std::span<double> x) {
  if (variant.pairing == RopePairing::kNone) return;
  INFERSCALE_ASSERT(x.size() >= variant.rotary_dims);
  for (size_t i = 0; i < variant.rotary_dims / 2; ++i) {
    const auto [c, s] = ReferenceCosSin(variant, position, i);
    const auto [first, second] = PairElements(variant, i);
    const double x0 = x[first], x1 = x[second];
    x[first] = x0 * c - x1 * s;
    x[second] = x0 * s + x1 * c;
  }
}

void UnrotateReference(const RopeVariant& variant, double position, std::span<double> x) {
  if (variant.pairing == RopePairing::kNone) return;
  INFERSCALE_ASSERT(x.size() >= variant.rotary_dims);
  for (size_t i = 0; i < variant.rotary_dims / 2; ++i) {
    const auto [c, s] = ReferenceCosSin(variant, position, i);
    const auto [first, second] = PairElements(variant, i);
    const double y0 = x[first], y1 = x[second];
    const double square = c * c + s * s;  // not 1: YaRN's magnitude
    x[first] = (y0 * c + y1 * s) / square;
    x[second] = (y1 * c - y0 * s) / square;
  }
}

}  // namespace inferscale
