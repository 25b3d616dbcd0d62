// Owners of llama.cpp's objects.
#pragma once

#include <llama.h>
#include <algorithm>

#include <memory>

namespace inferscale {

struct LlamaFree {
  void operator()(llama_model* p) const { llama_model_free(p); }
  void operator()(llama_context* p) const { llama_free(p); }
};
using LlamaModelPtr = std::unique_ptr<llama_model, LlamaFree>;
using LlamaContextPtr = std::unique_ptr<llama_context, LlamaFree>;

// llama_batch as a reusable array of (token, position) of sequence 0.
class LlamaBatch {
 public:
  explicit LlamaBatch(int32_t capacity) : batch_(llama_batch_init(capacity, 0, 1)), capacity_(capacity) {}
  ~LlamaBatch() { llama_batch_free(batch_); }
  LlamaBatch(const LlamaBatch&) = delete;
  LlamaBatch& operator=(const LlamaBatch&) = delete;

  int32_t capacity() const { return capacity_; }
  void Clear() { batch_.n_tokens = 0; }
  void Add(llama_token token, llama_pos position, bool logits) {
    const int32_t i = batch_.n_tokens++;
    batch_.token[i] = token;
    batch_.pos[i] = position;
    batch_.n_seq_id[i] = 1;
    batch_.seq_id[i][0] = 0;
    batch_.logits[i] = logits;
  }
  // What earlier batches had, too.
  void Wipe() {
    Clear();
    std::fill_n(batch_.token, capacity_, 0);
  }
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
  int32_t capacity_;
};

}  // namespace inferscale
