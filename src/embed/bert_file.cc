#include "embed/bert_file.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "base/limits.h"
#include "embed/gguf_check.h"

namespace inferscale {

namespace {

constexpr uint32_t kLayersMax = 128;  // BERT-large has 24
constexpr std::string_view kWordStart = "\u2581";

// GGUF's keys, with their types: gguf_get_val_… aborts on another one.
class Keys {
 public:
  explicit Keys(const gguf_context& gguf) : gguf_(gguf) {}

  std::string String(const char* key) const {
    const int64_t id = Find(key, GGUF_TYPE_STRING);
    return id < 0 ? "" : gguf_get_val_str(&gguf_, id);
  }
  std::optional<uint32_t> U32(const char* key) const {
    const int64_t id = Find(key, GGUF_TYPE_UINT32);
    return id < 0 ? std::nullopt : std::optional(gguf_get_val_u32(&gguf_, id));
  }
  std::optional<float> F32(const char* key) const {
    const int64_t id = Find(key, GGUF_TYPE_FLOAT32);
    return id < 0 ? std::nullopt : std::optional(gguf_get_val_f32(&gguf_, id));
  }
  std::optional<bool> Bool(const char* key) const {
    const int64_t id = Find(key, GGUF_TYPE_BOOL);
    return id < 0 ? std::nullopt : std::optional(gguf_get_val_bool(&gguf_, id));
  }

 private:
  int64_t Find(const char* key, gguf_type type) const {
    const int64_t id = gguf_find_key(&gguf_, key);
    return id >= 0 && gguf_get_kv_type(&gguf_, id) == type ? id : -1;
  }
  const gguf_context& gguf_;
};

struct BertShape {
  int64_t dim = 0, feed_forward = 0, layers = 0, context = 0, vocabulary = 0, token_types = 0;
};

tl::unexpected<Error> Unsupported(std::string why) { return Fail(ErrorCode::kModelUnsupported, std::move(why)); }

// Other parameters of the architecture would change the graph (other head sizes, clamping, experts): no embedder we
// know has them, and they are not looked at here.
Status CheckParameters(const gguf_context& gguf) {
  constexpr std::array<std::string_view, 8> kKnown = {"bert.block_count",      "bert.context_length",
                                                      "bert.embedding_length", "bert.feed_forward_length",
                                                      "bert.attention.causal", "bert.attention.head_count",
                                                      "bert.pooling_type",     "bert.attention.layer_norm_epsilon"};
  for (int64_t i = 0; i < gguf_get_n_kv(&gguf); ++i) {
    const std::string_view key = gguf_get_key(&gguf, i);
    if (key.starts_with("bert.") && std::find(kKnown.begin(), kKnown.end(), key) == kKnown.end())
      return Unsupported("it has a parameter we do not know, " + std::string(key));
  }
  return {};
}

Result<BertShape> ReadShape(const Keys& keys) {
  if (const std::string architecture = keys.String("general.architecture"); architecture != "bert")
    return Unsupported("it is not a BERT embedding model but of the architecture \"" + architecture + "\"");
  BertShape shape;
  const auto read = [&keys](const char* key, int64_t max, int64_t& value) -> Status {
    const std::optional<uint32_t> found = keys.U32(key);
    if (!found || *found < 1 || *found > max)
      return Unsupported(std::string(key) + " is " + (found ? std::to_string(*found) : "missing") +
                         ", not within 1 and " + std::to_string(max));
    value = *found;
    return {};
  };
  int64_t heads = 0;
  TRY(read("bert.embedding_length", limits::kEmbedDimMax, shape.dim));
  TRY(read("bert.feed_forward_length", 16 * limits::kEmbedDimMax, shape.feed_forward));
  TRY(read("bert.block_count", kLayersMax, shape.layers));
  TRY(read("bert.context_length", limits::kContextTokensMax, shape.context));
  TRY(read("bert.attention.head_count", limits::kEmbedDimMax, heads));
  TRY(read("tokenizer.ggml.token_type_count", 16, shape.token_types));
  const float epsilon = keys.F32("bert.attention.layer_norm_epsilon").value_or(-1);
  if (!(epsilon >= 0 && epsilon < 1))
    return Unsupported("bert.attention.layer_norm_epsilon is missing or not within 0 and 1");
  if (shape.dim % heads != 0)
    return Unsupported("its " + std::to_string(shape.dim) + " dimensions cannot be divided among " +
                       std::to_string(heads) + " heads");
  if (shape.context < limits::kEmbedTokens)
    return Unsupported("it sees " + std::to_string(shape.context) + " tokens, fewer than the " +
                       std::to_string(limits::kEmbedTokens) + " we give it");
  if (keys.Bool("bert.attention.causal") != false)
    return Unsupported("its attention is causal: not an embedding model");
  const uint32_t pooling = keys.U32("bert.pooling_type").value_or(0);
  if (pooling != 1 && pooling != 2)  // llama.h: mean, first token
    return Unsupported("its pooling type is " + std::to_string(pooling) + "; mean (1) and first token (2) are known");
  return shape;
}

Status CheckTensor(const gguf_context& gguf, const std::string& name, std::array<int64_t, 2> shape, bool only_f32) {
  const int64_t id = gguf_find_tensor(&gguf, name.c_str());
  if (id < 0) return Unsupported("it has no tensor " + name);
  const int64_t* ne = gguf_get_tensor_ne(&gguf, id);
  if (ne[0] != shape[0] || ne[1] != shape[1] || ne[2] != 1 || ne[3] != 1)
    return Unsupported("tensor " + name + " has not the shape " + std::to_string(shape[0]) + " x " +
                       std::to_string(shape[1]));
  const ggml_type type = gguf_get_tensor_type(&gguf, id);
  const bool known = type == GGML_TYPE_F32 ||
                     (!only_f32 && (type == GGML_TYPE_F16 || type == GGML_TYPE_BF16 || type == GGML_TYPE_Q8_0));
  if (!known)
    return Unsupported("tensor " + name + " is of type " + ggml_type_name(type) +
                       (only_f32 ? ", not f32" : ", not f32, f16, bf16 or q8_0"));
  return {};
}

// The graph adds and normalises without looking: a missing bias is a null pointer to it, another type an abort.
Status CheckTensors(const gguf_context& gguf, const BertShape& s) {
  const auto matrix = [&](const std::string& name, int64_t in, int64_t out) {
    return CheckTensor(gguf, name + ".weight", {in, out}, false);
  };
  const auto table = [&](const std::string& name, int64_t rows) {
    return CheckTensor(gguf, name + ".weight", {s.dim, rows}, true);
  };
  const auto vectors = [&](const std::string& name, int64_t size) {
    return CheckTensor(gguf, name + ".bias", {size, 1}, true);
  };
  TRY(matrix("token_embd", s.dim, s.vocabulary));
  TRY(table("position_embd", s.context));
  TRY(table("token_types", s.token_types));
  TRY(table("token_embd_norm", 1));
  TRY(vectors("token_embd_norm", s.dim));
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output"}) {
      TRY(matrix(layer + name, s.dim, s.dim));
      TRY(vectors(layer + name, s.dim));
    }
    TRY(matrix(layer + "ffn_up", s.dim, s.feed_forward));
    TRY(vectors(layer + "ffn_up", s.feed_forward));
    TRY(matrix(layer + "ffn_down", s.feed_forward, s.dim));
    TRY(vectors(layer + "ffn_down", s.dim));
    for (const char* name : {"attn_output_norm", "layer_output_norm"}) {
      TRY(table(layer + name, 1));
      TRY(vectors(layer + name, s.dim));
    }
  }
  return {};
}

// tools/convert_minilm.py tells how pieces become GGUF's tokens; this is the way back.
Result<std::vector<std::string>> ReadPieces(const gguf_context& gguf, const Keys& keys) {
  if (const std::string kind = keys.String("tokenizer.ggml.model"); kind != "bert")
    return Unsupported("its tokenizer is \"" + kind + "\", not WordPiece (\"bert\")");
  if (!keys.Bool("tokenizer.ggml.normalizer.lowercase").value_or(true) ||
      !keys.Bool("tokenizer.ggml.normalizer.strip_accents").value_or(true))
    return Unsupported("its tokenizer keeps case or accents; only uncased models are known");
  const int64_t tokens = gguf_find_key(&gguf, "tokenizer.ggml.tokens");
  const int64_t types = gguf_find_key(&gguf, "tokenizer.ggml.token_type");
  if (tokens < 0 || types < 0 || gguf_get_kv_type(&gguf, types) != GGUF_TYPE_ARRAY ||
      gguf_get_arr_type(&gguf, types) != GGUF_TYPE_INT32 ||
      gguf_get_arr_n(&gguf, types) != gguf_get_arr_n(&gguf, tokens))
    return Unsupported("it has no vocabulary with token types: convert it again");
  constexpr int32_t kNormal = 1;  // LLAMA_TOKEN_TYPE_NORMAL; the others are special tokens, stored as they are
  const auto* type = static_cast<const int32_t*>(gguf_get_arr_data(&gguf, types));
  std::vector<std::string> pieces;
  pieces.reserve(gguf_get_arr_n(&gguf, tokens));
  for (size_t i = 0; i < gguf_get_arr_n(&gguf, tokens); ++i) {
    const std::string_view token = gguf_get_arr_str(&gguf, tokens, i);
    if (type[i] != kNormal)
      pieces.emplace_back(token);
    else if (token.starts_with(kWordStart))
      pieces.emplace_back(token.substr(kWordStart.size()));
    else
      pieces.push_back("##" + std::string(token));
  }
  return pieces;
}

Result<BertFile> ReadChecked(const std::filesystem::path& path, const gguf_context& gguf) {
  const Keys keys(gguf);
  TRY_ASSIGN(BertShape shape, ReadShape(keys));
  TRY(CheckParameters(gguf));
  BertFile file;
  TRY_ASSIGN(file.pieces, ReadPieces(gguf, keys));
  shape.vocabulary = static_cast<int64_t>(file.pieces.size());
  TRY(CheckTensors(gguf, shape));
  file.name = keys.String("general.name");
  if (file.name.empty()) file.name = path.stem().string();
  file.dim = static_cast<uint32_t>(shape.dim);
  return file;
}

}  // namespace

Result<BertFile> ReadBertFile(const std::filesystem::path& path) {
  TRY_ASSIGN(const GgufPtr gguf, OpenGgufFile(path));
  Result<BertFile> file = ReadChecked(path, *gguf);
  if (!file) return Wrap(std::move(file).error(), path.string() + " cannot be used as embedder");
  TRY_ASSIGN(file->fingerprint, GgufFingerprint(path, *gguf));
  return file;
}

}  // namespace inferscale
