#include "engine/llama/random_model_test_util.h"

#include <ggml-cpp.h>
#include <gguf.h>

#include <algorithm>
#include <cmath>
#include <deque>

namespace inferscale {

namespace {

constexpr float kQueryKeyStd = 1.4f;  // scores: 1.4^2 = 2, see the header
constexpr float kLogitStd = 3.0f;
constexpr size_t kMaxTensors = 512;

// Collects the tensors of one file. Uniform values: weights need a spread, not a shape.
class TensorWriter {
 public:
  TensorWriter(gguf_context* file, uint64_t seed)
      : file_(file), state_(seed), context_(ggml_init({kMaxTensors * ggml_tensor_overhead(), nullptr, true})) {}

  // `columns` inputs, `rows` outputs (1: a vector): values around mean.
  std::vector<float>& Add(const std::string& name, uint32_t columns, uint32_t rows, float std, float mean = 0) {
    std::vector<float>& values = values_.emplace_back(size_t{columns} * rows);
    const float half_width = std * std::sqrt(3.0f);  // of the uniform distribution with this standard deviation
    for (float& value : values) value = mean + half_width * (2 * NextUnit() - 1);
    ggml_tensor* tensor = rows == 1 ? ggml_new_tensor_1d(context_.get(), GGML_TYPE_F32, columns)
                                    : ggml_new_tensor_2d(context_.get(), GGML_TYPE_F32, columns, rows);
    tensor->data = values.data();
    ggml_set_name(tensor, name.c_str());
    gguf_add_tensor(file_, tensor);
    return values;
  }
  // A matrix that maps inputs of standard deviation 1 to outputs of `gain`.
  std::vector<float>& Matrix(const std::string& name, uint32_t columns, uint32_t rows, float gain) {
    return Add(name, columns, rows, gain / std::sqrt(static_cast<float>(columns)));
  }
  // Not all ones, so that a norm left out shows.
  void Norm(const std::string& name, uint32_t size, float mean = 1) { Add(name, size, 1, 0.2f * mean, mean); }

 private:
  float NextUnit() {  // SplitMix64, the upper 24 bits
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return static_cast<float>((z ^ (z >> 31)) >> 40) * 0x1p-24f;
  }

  gguf_context* file_;
  uint64_t state_;
  ggml_context_ptr context_;
  std::deque<std::vector<float>> values_;  // a deque: tensors point into it
};

uint32_t RotaryDims(const RandomModelSpec& spec) { return spec.rotary_dims == 0 ? spec.head_dim : spec.rotary_dims; }

void AddRopeKeys(const RandomModelSpec& spec, gguf_context* file) {
  const auto key = [&](const char* suffix) { return spec.architecture + ".rope." + suffix; };
  gguf_set_val_u32(file, key("dimension_count").c_str(), RotaryDims(spec));
  gguf_set_val_f32(file, key("freq_base").c_str(), spec.rope_base);
  if (spec.rope_scaling == RandomRopeScaling::kLinear || spec.rope_scaling == RandomRopeScaling::kYarn) {
    const bool yarn = spec.rope_scaling == RandomRopeScaling::kYarn;
    gguf_set_val_str(file, key("scaling.type").c_str(), yarn ? "yarn" : "linear");
    gguf_set_val_f32(file, key("scaling.factor").c_str(), spec.rope_factor);
    if (yarn) gguf_set_val_u32(file, key("scaling.original_context_length").c_str(), spec.rope_context_original);
  }
  if (spec.architecture == "gemma3") gguf_set_val_f32(file, key("freq_base_swa").c_str(), spec.rope_base_swa);
}

void AddKeys(const RandomModelSpec& spec, gguf_context* file) {
  const auto set = [&](const char* suffix, uint32_t value) {
    gguf_set_val_u32(file, (spec.architecture + "." + suffix).c_str(), value);
  };
  const bool recurrent = spec.architecture == "mamba";
  gguf_set_val_str(file, "general.architecture", spec.architecture.c_str());
  gguf_set_val_str(file, "general.name", spec.name.c_str());
  set("context_length", spec.context_tokens);
  set("embedding_length", spec.embedding);
  set("block_count", spec.layers);
  set("feed_forward_length", recurrent ? 0 : spec.feed_forward);
  set("attention.head_count", recurrent ? 0 : spec.heads);
  const char* epsilon = spec.architecture == "gpt2" ? "layer_norm_epsilon" : "layer_norm_rms_epsilon";
  gguf_set_val_f32(file, (spec.architecture + ".attention." + epsilon).c_str(), 1e-5f);
  if (recurrent) {
    set("ssm.conv_kernel", 4);
    set("ssm.inner_size", 2 * spec.embedding);
    set("ssm.state_size", 16);
    set("ssm.time_step_rank", 8);
    return;
  }
  set("attention.head_count_kv", spec.kv_heads);
  if (spec.architecture == "gpt2") return;
  set("attention.key_length", spec.head_dim);
  set("attention.value_length", spec.head_dim);
  if (spec.architecture == "gemma3") {
    set("attention.sliding_window", spec.sliding_window);
    set("attention.sliding_window_pattern", spec.swa_pattern);
  }
  AddRopeKeys(spec, file);
}

// llama, qwen2, qwen3, gemma3, smollm3.
void AddTransformerLayer(const RandomModelSpec& spec, const std::string& layer, TensorWriter& out) {
  const uint32_t query = spec.heads * spec.head_dim, key = spec.kv_heads * spec.head_dim;
  const bool gemma = spec.architecture == "gemma3", key_norm = gemma || spec.architecture == "qwen3";
  out.Norm(layer + "attn_norm.weight", spec.embedding);
  out.Matrix(layer + "attn_q.weight", spec.embedding, query, kQueryKeyStd);
  out.Matrix(layer + "attn_k.weight", spec.embedding, key, kQueryKeyStd);
  out.Matrix(layer + "attn_v.weight", spec.embedding, key, 1);
  if (spec.architecture == "qwen2") {
    out.Add(layer + "attn_q.bias", query, 1, 0.5f);
    out.Add(layer + "attn_k.bias", key, 1, 0.5f);
    out.Add(layer + "attn_v.bias", key, 1, 0.5f);
  }
  if (key_norm) {
    out.Norm(layer + "attn_q_norm.weight", spec.head_dim, kQueryKeyStd);
    out.Norm(layer + "attn_k_norm.weight", spec.head_dim, kQueryKeyStd);
  }
  out.Matrix(layer + "attn_output.weight", query, spec.embedding, 2);
  if (gemma) out.Norm(layer + "post_attention_norm.weight", spec.embedding);
  out.Norm(layer + "ffn_norm.weight", spec.embedding);
  out.Matrix(layer + "ffn_gate.weight", spec.embedding, spec.feed_forward, 1);
  out.Matrix(layer + "ffn_up.weight", spec.embedding, spec.feed_forward, 1);
  out.Matrix(layer + "ffn_down.weight", spec.feed_forward, spec.embedding, 1.5f);
  if (gemma) out.Norm(layer + "post_ffw_norm.weight", spec.embedding);
}

void AddGpt2Layer(const RandomModelSpec& spec, const std::string& layer, TensorWriter& out) {
  const auto linear = [&](const char* name, uint32_t columns, uint32_t rows, float gain) {
    out.Matrix(layer + name + ".weight", columns, rows, gain);
    out.Add(layer + name + ".bias", rows, 1, 0.1f);
  };
  for (const char* norm : {"attn_norm", "ffn_norm"}) {
    out.Norm(layer + norm + ".weight", spec.embedding);
    out.Add(layer + norm + ".bias", spec.embedding, 1, 0.1f);
  }
  linear("attn_qkv", spec.embedding, 3 * spec.embedding, kQueryKeyStd);
  linear("attn_output", spec.embedding, spec.embedding, 2);
  linear("ffn_up", spec.embedding, spec.feed_forward, 1);
  linear("ffn_down", spec.feed_forward, spec.embedding, 1.5f);
}

void AddMambaLayer(const RandomModelSpec& spec, const std::string& layer, TensorWriter& out) {
  const uint32_t inner = 2 * spec.embedding, state = 16, rank = 8, kernel = 4;
  out.Norm(layer + "attn_norm.weight", spec.embedding);
  out.Matrix(layer + "ssm_in.weight", spec.embedding, 2 * inner, 1);
  out.Matrix(layer + "ssm_conv1d.weight", kernel, inner, 1);
  out.Add(layer + "ssm_conv1d.bias", inner, 1, 0.1f);
  out.Matrix(layer + "ssm_x.weight", inner, rank + 2 * state, 2);
  out.Matrix(layer + "ssm_dt.weight", rank, inner, 0.5f);
  out.Add(layer + "ssm_dt.bias", inner, 1, 0.5f, -2);  // steps of about log(1 + e^-2) = 0.13
  out.Add(layer + "ssm_a", state, inner, 0.25f, -1);   // negative: the state decays
  out.Add(layer + "ssm_d", inner, 1, 0.2f, 1);
  out.Matrix(layer + "ssm_out.weight", inner, spec.embedding, 2);
}

void AddTensors(const RandomModelSpec& spec, const RandomVocabSize& vocab, TensorWriter& out) {
  // Gemma multiplies embeddings by sqrt(embedding).
  const float embedding_std = spec.architecture == "gemma3" ? 1 / std::sqrt(static_cast<float>(spec.embedding)) : 1;
  out.Add("token_embd.weight", spec.embedding, vocab.tokens, embedding_std);
  if (spec.architecture == "gpt2") {
    out.Add("position_embd.weight", spec.embedding, spec.context_tokens, 0.5f);
    out.Add("output_norm.bias", spec.embedding, 1, 0.1f);
  }
  out.Norm("output_norm.weight", spec.embedding);
  std::vector<float>& output = out.Matrix("output.weight", spec.embedding, vocab.tokens, kLogitStd);
  std::fill_n(output.begin(), size_t{vocab.first_text_token} * spec.embedding, 0.0f);
  if (spec.rope_scaling == RandomRopeScaling::kLlama3) {
    const uint32_t pairs = RotaryDims(spec) / 2;
    std::vector<float>& factors = out.Add("rope_freqs.weight", pairs, 1, 0, 1);
    // Llama 3 leaves fast pairs alone and slows the slow ones; here the ramp covers the middle half.
    for (uint32_t i = 0; i < pairs; ++i) {
      const float ramp = std::clamp(2 * static_cast<float>(i) / static_cast<float>(pairs) - 0.5f, 0.0f, 1.0f);
      factors[i] = 1 + (spec.rope_factor - 1) * ramp;
    }
  }
  for (uint32_t i = 0; i < spec.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    if (spec.architecture == "gpt2")
      AddGpt2Layer(spec, layer, out);
    else if (spec.architecture == "mamba")
      AddMambaLayer(spec, layer, out);
    else
      AddTransformerLayer(spec, layer, out);
  }
}

Status CheckSpec(const RandomModelSpec& spec) {
  const bool divided = spec.architecture == "qwen2" || spec.architecture == "smollm3" || spec.architecture == "gpt2";
  const auto refuse = [&](const char* why) { return Fail(ErrorCode::kInvalidArgument, spec.name + ": " + why); };
  if (spec.layers == 0 || spec.layers > 32) return refuse("1 to 32 layers");
  if (spec.heads == 0 || spec.kv_heads == 0 || spec.heads % spec.kv_heads != 0)
    return refuse("kv_heads must divide heads");
  if (divided && spec.heads * spec.head_dim != spec.embedding) return refuse("head_dim must be embedding / heads");
  if (spec.architecture == "gpt2" && spec.kv_heads != spec.heads) return refuse("gpt2 has as many kv heads as heads");
  if (spec.head_dim % 2 != 0 || RotaryDims(spec) % 2 != 0 || RotaryDims(spec) > spec.head_dim)
    return refuse("rotary_dims must be even and at most head_dim, which must be even");
  if (spec.rope_scaling == RandomRopeScaling::kLlama3 && spec.architecture != "llama")
    return refuse("frequency factors are for llama");
  return {};
}

}  // namespace

Result<std::filesystem::path> WriteRandomModel(const RandomModelSpec& spec, const std::filesystem::path& folder) {
  TRY(CheckSpec(spec));
  const gguf_context_ptr file(gguf_init_empty());
  AddKeys(spec, file.get());
  const RandomVocabSize vocab = AddRandomVocab(spec.vocab, file.get());
  TensorWriter tensors(file.get(), spec.seed);
  AddTensors(spec, vocab, tensors);
  const std::filesystem::path path = folder / (spec.name + ".gguf");
  if (!gguf_write_to_file(file.get(), path.c_str(), false))
    return Fail(ErrorCode::kIo, "cannot write " + path.string());
  return path;
}

std::vector<RandomModelSpec> InjectableRandomModels() {
  using Scaling = RandomRopeScaling;
  const RandomVocabSpec sentence_piece{.kind = RandomVocab::kSentencePiece, .add_bos = true};
  const RandomVocabSpec gemma{.kind = RandomVocab::kSentencePiece,
                              .chat_template = RandomTemplate::kNoSystemRole,
                              .add_bos = true,
                              .add_space_prefix = false};
  return {
      {.name = "llama", .vocab = sentence_piece},
      {.name = "llama_llama3",
       .rope_base = 500000,
       .rope_scaling = Scaling::kLlama3,
       .rope_factor = 8,
       .vocab = {.add_bos = true}},
      {.name = "llama_linear", .rope_scaling = Scaling::kLinear, .vocab = {.chat_template = RandomTemplate::kNone}},
      {.name = "llama_yarn", .rope_scaling = Scaling::kYarn},
      {.name = "qwen2", .architecture = "qwen2", .rope_base = 1000000},
      {.name = "qwen3", .architecture = "qwen3", .head_dim = 48, .rope_base = 1000000},
      {.name = "qwen3_yarn", .architecture = "qwen3", .head_dim = 48, .rope_scaling = Scaling::kYarn},
      {.name = "gemma3",
       .architecture = "gemma3",
       .layers = 4,
       .kv_heads = 1,
       .head_dim = 64,
       .rope_base = 1000000,
       .vocab = gemma},
      {.name = "gemma3_linear_partial",
       .architecture = "gemma3",
       .layers = 4,
       .kv_heads = 1,
       .head_dim = 64,
       .rotary_dims = 32,
       .rope_scaling = Scaling::kLinear,
       .vocab = gemma},
  };
}

std::vector<RandomModelSpec> TextModeRandomModels() {
  return {
      {.name = "smollm3", .architecture = "smollm3", .layers = 4},  // its fourth layer does not rotate
      {.name = "gpt2", .architecture = "gpt2", .kv_heads = 4, .context_tokens = 2048},
      {.name = "mamba", .architecture = "mamba"},
  };
}

}  // namespace inferscale
