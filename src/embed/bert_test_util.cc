#include "embed/bert_test_util.h"

#include <ggml-cpp.h>
#include <gtest/gtest.h>

#include <random>
#include <string_view>

namespace inferscale::testing {

namespace {

constexpr int64_t kDim = 32, kFeedForward = 64, kLayers = 2, kContext = 256, kTypes = 2;

void SetKeys(gguf_context* gguf, const std::vector<std::string>& pieces) {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;
  for (const std::string_view piece : pieces) {
    const bool special = piece.starts_with('[') && piece.size() > 2;
    types.push_back(special ? 3 : 1);  // CONTROL, NORMAL
    if (special)
      tokens.emplace_back(piece);
    else if (piece.starts_with("##"))
      tokens.emplace_back(piece.substr(2));
    else
      tokens.push_back("\u2581" + std::string(piece));
  }
  std::vector<const char*> pointers;
  for (const std::string& token : tokens) pointers.push_back(token.c_str());
  gguf_set_val_str(gguf, "general.architecture", "bert");
  gguf_set_val_str(gguf, "general.name", "small");
  gguf_set_val_u32(gguf, "bert.block_count", kLayers);
  gguf_set_val_u32(gguf, "bert.context_length", kContext);
  gguf_set_val_u32(gguf, "bert.embedding_length", kDim);
  gguf_set_val_u32(gguf, "bert.feed_forward_length", kFeedForward);
  gguf_set_val_u32(gguf, "bert.attention.head_count", 2);
  gguf_set_val_f32(gguf, "bert.attention.layer_norm_epsilon", 1e-12f);
  gguf_set_val_bool(gguf, "bert.attention.causal", false);
  gguf_set_val_u32(gguf, "bert.pooling_type", 1);
  gguf_set_val_u32(gguf, "tokenizer.ggml.token_type_count", kTypes);
  gguf_set_val_str(gguf, "tokenizer.ggml.model", "bert");
  gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 1);
  gguf_set_val_u32(gguf, "tokenizer.ggml.seperator_token_id", 3);  // GGUF's own spelling
  gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", 0);
  gguf_set_val_u32(gguf, "tokenizer.ggml.mask_token_id", 4);
  gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
  gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
}

class Tensors {
 public:
  Tensors(SmallBert bert, gguf_context* gguf)
      : bert_(std::move(bert)),
        gguf_(gguf),
        context_(ggml_init({.mem_size = 4 << 20, .mem_buffer = nullptr, .no_alloc = false})) {}

  void Add(const std::string& name, int64_t in, int64_t out) {
    if (name == bert_.without_tensor) return;
    const ggml_type type = name == bert_.f16_tensor ? GGML_TYPE_F16 : GGML_TYPE_F32;
    ggml_tensor* tensor =
        out == 0 ? ggml_new_tensor_1d(context_.get(), type, in) : ggml_new_tensor_2d(context_.get(), type, in, out);
    ggml_set_name(tensor, name.c_str());
    const int64_t elements = ggml_nelements(tensor);
    std::uniform_real_distribution<float> values(-bert_.weight, bert_.weight);
    for (int64_t i = 0; type == GGML_TYPE_F32 && i < elements; ++i)
      static_cast<float*>(tensor->data)[i] = values(random_);
    gguf_add_tensor(gguf_, tensor);
  }
  void AddLinear(const std::string& name, int64_t in, int64_t out) {
    Add(name + ".weight", in, out);
    Add(name + ".bias", out, 0);
  }
  void AddNorm(const std::string& name) {
    Add(name + ".weight", kDim, 0);
    Add(name + ".bias", kDim, 0);
  }

 private:
  const SmallBert bert_;
  gguf_context* gguf_;
  ggml_context_ptr context_;
  std::mt19937 random_{1};
};

}  // namespace

std::vector<std::string> SmallVocabulary() {
  std::vector<std::string> pieces = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".",
                                     "the",   "cat",   "##s",   "##at",  "un"};
  for (char c = 'a'; c <= 'z'; ++c) {
    pieces.emplace_back(1, c);
    if (c != 's' && c != 'q') pieces.push_back(std::string("##") + c);  // "aq" is unknown
  }
  return pieces;
}

void SetUnigramVocabulary(gguf_context* gguf) {
  std::vector<std::string> tokens = {"<s>", "<pad>", "</s>", "<unk>", "\u2581", "\u2581the", "\u2581cat", "\u2581sat"};
  for (char c = 'a'; c <= 'z'; ++c) tokens.emplace_back(1, c);
  for (const char* mark : {"<", ">", "/"}) tokens.emplace_back(mark);
  while (tokens.size() < SmallVocabulary().size()) tokens.push_back("<unused" + std::to_string(tokens.size()) + ">");
  std::vector<int32_t> types;
  std::vector<float> scores;
  std::vector<const char*> pointers;
  for (const std::string& token : tokens) {
    const bool is_unknown = token == "<unk>", is_special = token.size() > 2 && token[0] == '<';
    types.push_back(is_unknown ? 2 : is_special ? 3 : 1);  // UNKNOWN, CONTROL, NORMAL
    scores.push_back(token.starts_with("\u2581") && token.size() > 3 ? -1.0f : -2.0f);
    pointers.push_back(token.c_str());
  }
  gguf_set_val_str(gguf, "tokenizer.ggml.model", "t5");
  gguf_set_arr_str(gguf, "tokenizer.ggml.tokens", pointers.data(), pointers.size());
  gguf_set_arr_data(gguf, "tokenizer.ggml.token_type", GGUF_TYPE_INT32, types.data(), types.size());
  gguf_set_arr_data(gguf, "tokenizer.ggml.scores", GGUF_TYPE_FLOAT32, scores.data(), scores.size());
  gguf_set_val_u32(gguf, "tokenizer.ggml.bos_token_id", 0);
  gguf_set_val_u32(gguf, "tokenizer.ggml.padding_token_id", 1);
  gguf_set_val_u32(gguf, "tokenizer.ggml.eos_token_id", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.seperator_token_id", 2);
  gguf_set_val_u32(gguf, "tokenizer.ggml.unknown_token_id", 3);
  gguf_set_val_bool(gguf, "tokenizer.ggml.add_bos_token", true);
  gguf_set_val_bool(gguf, "tokenizer.ggml.add_eos_token", true);
  gguf_set_val_bool(gguf, "tokenizer.ggml.add_space_prefix", true);
}

void WriteSmallDecoder(const SmallDecoder& decoder, const std::filesystem::path& path) {
  const gguf_context_ptr file(gguf_init_empty());
  gguf_context* gguf = file.get();
  gguf_set_val_str(gguf, "general.architecture", "llama");
  gguf_set_val_u32(gguf, "llama.block_count", kLayers);
  gguf_set_val_u32(gguf, "llama.context_length", kContext);
  gguf_set_val_u32(gguf, "llama.embedding_length", kDim);
  gguf_set_val_u32(gguf, "llama.feed_forward_length", kFeedForward);
  gguf_set_val_u32(gguf, "llama.attention.head_count", 2);
  gguf_set_val_u32(gguf, "llama.rope.dimension_count", kDim / 2);
  gguf_set_val_f32(gguf, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
  if (decoder.pooling) gguf_set_val_u32(gguf, "llama.pooling_type", *decoder.pooling);
  SetUnigramVocabulary(gguf);
  SmallBert weights;
  weights.weight = 0.5f;
  Tensors tensors(weights, gguf);
  tensors.Add("token_embd.weight", kDim, static_cast<int64_t>(SmallVocabulary().size()));
  tensors.Add("output_norm.weight", kDim, 0);
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"})
      tensors.Add(layer + name + ".weight", kDim, kDim);
    tensors.Add(layer + "ffn_gate.weight", kDim, kFeedForward);
    tensors.Add(layer + "ffn_up.weight", kDim, kFeedForward);
    tensors.Add(layer + "ffn_down.weight", kFeedForward, kDim);
    for (const char* name : {"attn_norm", "ffn_norm"}) tensors.Add(layer + name + ".weight", kDim, 0);
  }
  ASSERT_TRUE(gguf_write_to_file(gguf, path.c_str(), false));
}

void WriteSmallBert(const SmallBert& bert, const std::filesystem::path& path) {
  const gguf_context_ptr gguf(gguf_init_empty());
  SetKeys(gguf.get(), bert.pieces);
  Tensors tensors(bert, gguf.get());
  tensors.Add("token_embd.weight", kDim, static_cast<int64_t>(SmallVocabulary().size()));
  tensors.Add("position_embd.weight", kDim, kContext);
  tensors.Add("token_types.weight", kDim, kTypes);
  tensors.AddNorm("token_embd_norm");
  for (int64_t i = 0; i < kLayers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) tensors.AddLinear(layer + name, kDim, kDim);
    tensors.AddLinear(layer + "ffn_up", kDim, kFeedForward);
    tensors.AddLinear(layer + "ffn_down", kFeedForward, kDim);
    tensors.AddNorm(layer + "attn_output_norm");
    tensors.AddNorm(layer + "layer_output_norm");
  }
  bert.change_keys(gguf.get());
  ASSERT_TRUE(gguf_write_to_file(gguf.get(), path.c_str(), false));
}

}  // namespace inferscale::testing
