#include "engine/llama/kv_capture.h"

#include <ggml-backend.h>

#include <cstdlib>
#include <cstring>

#include "base/assert.h"
#include "base/limits.h"
#include "kernels/cpu/convert.h"

namespace inferscale {

namespace {

// "Kcur-12" -> layer 12; -1 when the name is not `stem`-number.
int LayerOf(const char* name, std::string_view stem) {
  if (std::strncmp(name, stem.data(), stem.size()) != 0 || name[stem.size()] != '-') return -1;
  char* end;
  const long layer = std::strtol(name + stem.size() + 1, &end, 10);
  return *end == '\0' && layer >= 0 && layer < static_cast<long>(limits::kModelLayers) ? static_cast<int>(layer) : -1;
}

// ggml keeps a node's parameters as an array of 32-bit words; the places are those of ggml_rope_ext.
float FloatParam(const ggml_tensor* t, int i) {
  float value;
  std::memcpy(&value, t->op_params + i, sizeof value);
  return value;
}

constexpr int32_t kRopeModeInterleaved = 0;
constexpr int32_t kRopeModeNeox = 2;

RopeVariant ReadRope(const ggml_tensor* t) {
  RopeVariant v;
  const int32_t mode = t->op_params[2];
  v.pairing = mode == kRopeModeInterleaved ? RopePairing::kInterleaved
              : mode == kRopeModeNeox      ? RopePairing::kNeoxHalves
                                           : RopePairing::kNone;
  v.rotary_dims = static_cast<uint32_t>(t->op_params[1]);
  v.context_original = static_cast<uint32_t>(t->op_params[4]);
  v.base = FloatParam(t, 5);
  v.freq_scale = FloatParam(t, 6);
  v.ext_factor = FloatParam(t, 7);
  v.attn_factor = FloatParam(t, 8);
  v.beta_fast = FloatParam(t, 9);
  v.beta_slow = FloatParam(t, 10);
  if (const ggml_tensor* factors = t->src[2]) {
    v.freq_factors.resize(v.rotary_dims / 2);
    ggml_backend_tensor_get(factors, v.freq_factors.data(), 0, v.freq_factors.size() * sizeof(float));
  }
  return v;
}

}  // namespace

bool KvCapture::Callback(ggml_tensor* tensor, bool ask, void* self) {
  auto* capture = static_cast<KvCapture*>(self);
  switch (capture->mode_) {
    case Mode::kOff:
      return false;
    case Mode::kProbe:
      return capture->OnProbe(tensor, ask);
    case Mode::kCapture:
      return capture->OnCapture(tensor, ask);
  }
  return false;
}

void KvCapture::StartProbe() {
  mode_ = Mode::kProbe;
  seen_.clear();
}

bool KvCapture::OnProbe(ggml_tensor* t, bool ask) {
  int layer = -1;
  std::string stem;
  for (const char* candidate : {"Kcur", "Kcur_normed", "Vcur"}) {
    if (const int found = LayerOf(t->name, candidate); found >= 0) {
      layer = found;
      stem = candidate;
    }
  }
  if (layer < 0) return false;
  if (ask) return true;  // computed on its own, so that rope factors and shapes are final when we look
  if (seen_.size() <= static_cast<size_t>(layer)) seen_.resize(layer + 1);
  Seen seen{stem, t->op, t->ne[0], t->ne[1], {}};
  if (t->op == GGML_OP_ROPE) {
    seen.rope = ReadRope(t);
    if (seen.rope.pairing == RopePairing::kNone) seen.rope.rotary_dims = UINT32_MAX;  // an unknown mode: refused below
  }
  seen_[layer].push_back(std::move(seen));
  return true;
}

Result<KvProbe> KvCapture::FinishProbe() {
  mode_ = Mode::kOff;
  const auto unsupported = [](size_t layer, const std::string& why) {
    return Fail(ErrorCode::kModelUnsupported, "layer " + std::to_string(layer) + ": " + why);
  };
  KvProbe probe;
  if (seen_.empty()) return Fail(ErrorCode::kModelUnsupported, "its graph names no key tensors");
  probe.shape.layers = static_cast<uint32_t>(seen_.size());
  for (size_t layer = 0; layer < seen_.size(); ++layer) {
    const Seen *key = nullptr, *value = nullptr;
    RopeVariant rope;  // kNone unless a ROPE node is seen
    bool rotated = false;
    for (const Seen& seen : seen_[layer]) {
      if (seen.name == "Vcur") {
        value = &seen;
      } else if (seen.op == GGML_OP_ROPE) {
        if (seen.rope.rotary_dims == UINT32_MAX) return unsupported(layer, "an unknown kind of rope");
        rope = seen.rope;
        rotated = true;
      } else if (rotated) {
        return unsupported(layer, "its keys are changed after rotation");
      } else {
        key = &seen;
      }
    }
    if (key == nullptr || value == nullptr) return unsupported(layer, "its keys or values have no tensor of their own");
    const KvShape shape{probe.shape.layers, static_cast<uint32_t>(key->heads), static_cast<uint32_t>(key->dim),
                        static_cast<uint32_t>(value->dim)};
    const KvTap tap{key->name, key->op, value->name, value->op};
    if (layer == 0) {
      probe.shape = shape;
      probe.tap = tap;
    }
    if (!(shape == probe.shape) || value->heads != key->heads) return unsupported(layer, "layers differ in shape");
    if (tap.key_name != probe.tap.key_name || tap.key_op != probe.tap.key_op || tap.value_op != probe.tap.value_op)
      return unsupported(layer, "layers differ in structure");
    probe.rope.AddLayer(rope);
  }
  TRY(CheckRope(probe.rope, probe.shape.layers, probe.shape.key_dim));
  return probe;
}

void KvCapture::StartCapture(const KvProbe& probe, std::vector<CaptureSink> sinks) {
  mode_ = Mode::kCapture;
  probe_ = probe;
  sinks_ = std::move(sinks);
  keys_.assign(probe.shape.layers, 0);
  values_.assign(probe.shape.layers, 0);
}

bool KvCapture::OnCapture(ggml_tensor* t, bool ask) {
  const KvTap& tap = probe_.tap;
  int layer = -1;
  bool is_key = false;
  if (t->op == tap.key_op) {
    layer = LayerOf(t->name, tap.key_name);
    is_key = layer >= 0;
  }
  if (layer < 0 && t->op == tap.value_op) layer = LayerOf(t->name, tap.value_name);
  if (layer < 0) return false;
  if (!ask) Store(t, static_cast<uint32_t>(layer), is_key);
  return true;
}

void KvCapture::Store(ggml_tensor* t, uint32_t layer, bool is_key) {
  const KvShape& shape = probe_.shape;
  const size_t dim = is_key ? shape.key_dim : shape.value_dim;
  INFERSCALE_ASSERT(layer < shape.layers && t->type == GGML_TYPE_F32);
  INFERSCALE_ASSERT(t->ne[0] == static_cast<int64_t>(dim) && t->ne[1] == shape.kv_heads);
  const uint8_t* data;
  if (ggml_backend_buffer_is_host(t->view_src ? t->view_src->buffer : t->buffer)) {
    data = static_cast<const uint8_t*>(t->data);
  } else {
    staging_.resize(ggml_nbytes(t));
    ggml_backend_tensor_get(t, staging_.data(), 0, staging_.size());
    data = staging_.data();
  }
  uint32_t& delivered = (is_key ? keys_ : values_)[layer];
  const uint32_t first = delivered, last = first + static_cast<uint32_t>(t->ne[2]);
  delivered = last;
  for (const CaptureSink& sink : sinks_) {
    const uint32_t sink_end = sink.begin + sink.payload->tokens();
    const uint32_t from = std::max(first, sink.begin), to = std::min(last, sink_end);
    for (uint32_t token = from; token < to; ++token) {
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        const auto* row = reinterpret_cast<const float*>(data + (token - first) * t->nb[2] + head * t->nb[1]);
        uint16_t* rows = is_key ? sink.payload->Key(head, layer) : sink.payload->Value(head, layer);
        kernels::F32ToF16(row, rows + (token - sink.begin) * dim, dim);
      }
    }
  }
}

Status KvCapture::FinishCapture() {
  mode_ = Mode::kOff;
  uint32_t wanted = 0;
  for (const CaptureSink& sink : sinks_) wanted = std::max(wanted, sink.begin + sink.payload->tokens());
  sinks_.clear();
  for (uint32_t layer = 0; layer < probe_.shape.layers; ++layer) {
    if (keys_[layer] < wanted || values_[layer] < wanted)
      return Fail(ErrorCode::kInternal, "layer " + std::to_string(layer) + " gave " + std::to_string(keys_[layer]) +
                                            " of " + std::to_string(wanted) + " tokens while encoding");
  }
  return {};
}

}  // namespace inferscale
