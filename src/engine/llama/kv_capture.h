// Reads keys before rotation and values out of llama.cpp's graph while it computes, through the context's evaluation
// callback (the only public way: the cache itself holds rotated keys).
//
// Per layer L the graph names its tensors "Vcur-L", "Kcur-L", for models with a key norm "Kcur_normed-L", and then the
// rotated "Kcur-L" (op ROPE). The key we want is the last of them before the ROPE node; which one that is, and every
// rope parameter, is learnt once per model by watching a few tokens go through (Probe).
#pragma once

#include <ggml.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "core/rope.h"

namespace inferscale {

// Which graph nodes hold a layer's key before rotation and its value.
struct KvTap {
  std::string key_name;  // "Kcur" or "Kcur_normed"
  ggml_op key_op = GGML_OP_NONE;
  std::string value_name = "Vcur";
  ggml_op value_op = GGML_OP_NONE;
};

struct KvProbe {
  KvTap tap;
  KvShape shape;
  RopeSpec rope;
};

// Where captured tokens go: tokens [begin, begin + payload->tokens()) of the decode call.
struct CaptureSink {
  uint32_t begin = 0;
  KvPayload* payload = nullptr;
};

// Used on the engine's thread only. Off unless Start… was called: then the graph runs in one piece.
class KvCapture {
 public:
  // For llama_context_params: cb_eval = Callback, cb_eval_user_data = the KvCapture.
  static bool Callback(ggml_tensor* tensor, bool ask, void* self);

  // Watches the next decode call. FinishProbe: kModelUnsupported with the reason when keys cannot be found or rotated.
  void StartProbe();
  Result<KvProbe> FinishProbe();

  // Captures the next decode calls, whose tokens are counted from 0, into sinks (sorted, disjoint, alive until Finish).
  // FinishCapture: kInternal when a layer did not deliver every token.
  void StartCapture(const KvProbe& probe, std::vector<CaptureSink> sinks);
  Status FinishCapture();

 private:
  struct Seen {  // one named node of a layer, in order
    std::string name;
    ggml_op op;
    int64_t dim, heads;
    RopeVariant rope;  // of a ROPE node
  };
  enum class Mode : uint8_t { kOff, kProbe, kCapture };

  bool OnProbe(ggml_tensor* tensor, bool ask);
  bool OnCapture(ggml_tensor* tensor, bool ask);
  void Store(ggml_tensor* tensor, uint32_t layer, bool is_key);

  Mode mode_ = Mode::kOff;
  std::vector<std::vector<Seen>> seen_;  // [layers]
  KvProbe probe_;
  std::vector<CaptureSink> sinks_;
  std::vector<uint32_t> keys_, values_;  // [layers] tokens delivered so far
  std::vector<uint8_t> staging_;         // for tensors that are not in host memory
};

}  // namespace inferscale
