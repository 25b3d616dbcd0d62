#include "embed/llama_embedder.h"

#include <llama.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <thread>

#include "base/limits.h"
#include "base/utf8.h"
#include "embed/bert_file.h"
#include "embed/gguf_check.h"
#include "embed/llama_log.h"

namespace inferscale {

namespace {

// Tokens and texts given to llama.cpp at once. Its attention spans the whole batch, so that its work grows with the
// square of the batch, while the matrix products gain little beyond some hundred rows: texts of 17 tokens cost 13
// to 21 % less in batches of 256 tokens than in batches of 64, and the longest text needs 256.
constexpr uint32_t kBatchTokens = 256;
constexpr uint32_t kBatchTexts = 32;
static_assert(kBatchTokens >= limits::kEmbedTokens, "the longest text must fit");

constexpr uint32_t kTokenizerVersion = 1;  // raise when WordPiece gives other ids: cached vectors are then not used

// vector[0..dim): to unit length. False if that is not possible.
bool Normalize(const float* from, size_t dim, float* to) {
  double sum = 0;
  for (size_t i = 0; i < dim; ++i) sum += static_cast<double>(from[i]) * from[i];
  if (!std::isfinite(sum) || sum <= 0) return false;
  const double scale = 1 / std::sqrt(sum);
  for (size_t i = 0; i < dim; ++i) to[i] = static_cast<float>(from[i] * scale);
  return true;
}

}  // namespace

// llama_batch with one sequence per text.
class LlamaEmbedder::Batch {
 public:
  Batch() : batch_(llama_batch_init(static_cast<int32_t>(kBatchTokens), 0, 1)) {}
  ~Batch() { llama_batch_free(batch_); }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void Clear() { batch_.n_tokens = 0; }
  void Add(std::span<const int32_t> ids, llama_seq_id sequence) {
    for (size_t i = 0; i < ids.size(); ++i) {
      const int32_t at = batch_.n_tokens++;
      batch_.token[at] = ids[i];
      batch_.pos[at] = static_cast<llama_pos>(i);
      batch_.n_seq_id[at] = 1;
      batch_.seq_id[at][0] = sequence;
      batch_.logits[at] = true;
    }
  }
  const llama_batch& get() const { return batch_; }

 private:
  llama_batch batch_;
};

void LlamaEmbedder::Free::operator()(llama_model* p) const { llama_model_free(p); }
void LlamaEmbedder::Free::operator()(llama_context* p) const { llama_free(p); }
LlamaEmbedder::LlamaEmbedder() = default;
LlamaEmbedder::~LlamaEmbedder() = default;

Result<std::unique_ptr<LlamaEmbedder>> LlamaEmbedder::Load(const std::filesystem::path& path, int threads) {
  InitLlamaLog();
  TRY_ASSIGN(const GgufPtr gguf, OpenGgufFile(path));
  std::unique_ptr<LlamaEmbedder> made(new LlamaEmbedder());
  const std::string architecture = GgufString(*gguf, "general.architecture");
  if (architecture.empty())
    return Fail(ErrorCode::kModelUnsupported, path.string() + " cannot be used as embedder: it names no architecture");
  made->is_bert_ = architecture == "bert" && GgufString(*gguf, "tokenizer.ggml.model") == "bert";
  if (made->is_bert_) {
    TRY_ASSIGN(const BertFile file, ReadBertFile(path));
    Result<WordPiece> tokenizer = WordPiece::Make(file.pieces);
    if (!tokenizer) return Wrap(std::move(tokenizer).error(), path.string() + " cannot be used as embedder");
    made->tokenizer_ = MakeWordPieceTokenizer(std::move(*tokenizer));
    made->dim_ = file.dim;
    made->name_ = file.name;
    made->key_ = Hasher().Digest(file.fingerprint).U32(kTokenizerVersion).U32(limits::kEmbedTokens).Finish();
  } else {
    made->name_ = GgufString(*gguf, "general.name");
    if (made->name_.empty()) made->name_ = path.stem().string();
    TRY_ASSIGN(const Hash128 fingerprint, GgufFingerprint(path, *gguf));
    made->key_ = Hasher().Digest(fingerprint).Str("vocab").U32(kTokenizerVersion).U32(limits::kEmbedTokens).Finish();
  }
  TRY(made->LoadModel(path, threads));
  TRY(made->CheckModel(path));
  return made;
}

Status LlamaEmbedder::LoadModel(const std::filesystem::path& path, int threads) {
  (void)TakeLlamaError();
  llama_model_params model_params = llama_model_default_params();
  model_params.n_gpu_layers = 0;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = params.n_batch = params.n_ubatch = kBatchTokens;
  params.n_seq_max = kBatchTexts;
  params.kv_unified = true;  // of models with a causal attention: texts share the cells, as they share the batch
  if (threads <= 0) threads = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  params.n_threads = params.n_threads_batch = threads;
  params.embeddings = true;
  if (is_bert_) {
    params.attention_type = LLAMA_ATTENTION_TYPE_NON_CAUSAL;
    // Measured for 17, 62 and 256 tokens: as fast for one short text, 1.3 to 1.7 times as fast for batches and long
    // texts.
    params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  }
  try {
    model_.reset(llama_model_load_from_file(path.c_str(), model_params));
    if (model_) context_.reset(llama_init_from_model(model_.get(), params));
    batch_ = std::make_unique<Batch>();
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kModelLoad, "llama.cpp cannot load " + path.string() + ": " + e.what());
  }
  if (!context_) return Fail(ErrorCode::kModelLoad, "llama.cpp cannot load " + path.string() + ": " + TakeLlamaError());
  return {};
}

// What ReadBertFile has looked at before loading, for other models.
Status LlamaEmbedder::CheckModel(const std::filesystem::path& path) {
  if (is_bert_) return {};
  const auto unsupported = [&path](const std::string& why) {
    return Fail(ErrorCode::kModelUnsupported, path.string() + " cannot be used as embedder: " + why);
  };
  const llama_vocab* vocab = llama_model_get_vocab(model_.get());
  if (llama_vocab_type(vocab) == LLAMA_VOCAB_TYPE_NONE) return unsupported("it holds no tokenizer");
  if (llama_model_has_encoder(model_.get()) && llama_model_has_decoder(model_.get()))
    return unsupported("it has an encoder and a decoder");
  switch (llama_pooling_type(context_.get())) {
    case LLAMA_POOLING_TYPE_MEAN:
    case LLAMA_POOLING_TYPE_CLS:
    case LLAMA_POOLING_TYPE_LAST:
      break;
    case LLAMA_POOLING_TYPE_RANK:
      return unsupported("it is a reranker, which scores pairs of texts");
    default:
      return unsupported("it says of no way to make one vector of a text (pooling_type): a language model, probably");
  }
  const int32_t dim = llama_model_n_embd_out(model_.get()), context = llama_model_n_ctx_train(model_.get());
  if (dim < 1 || dim > limits::kEmbedDimMax)
    return unsupported("its vectors have " + std::to_string(dim) + " dimensions, more than " +
                       std::to_string(limits::kEmbedDimMax));
  if (context < limits::kEmbedTokens)
    return unsupported("it sees " + std::to_string(context) + " tokens, fewer than the " +
                       std::to_string(limits::kEmbedTokens) + " we give it");
  dim_ = static_cast<uint32_t>(dim);
  tokenizer_ = MakeVocabTokenizer(vocab);
  return {};
}

size_t LlamaEmbedder::CountTokens(std::string_view text) const { return tokenizer_->Encode(text, SIZE_MAX).size(); }

Result<std::vector<float>> LlamaEmbedder::Embed(std::span<const std::string_view> texts) {
  TRY(CheckEmbedTexts(texts));
  std::vector<Input> inputs;
  inputs.reserve(texts.size());
  for (size_t i = 0; i < texts.size(); ++i) inputs.push_back({tokenizer_->Encode(texts[i], limits::kEmbedTokens), i});
  // Texts of about the same length together: short ones then come in full batches, long ones alone.
  std::stable_sort(inputs.begin(), inputs.end(),
                   [](const Input& a, const Input& b) { return a.ids.size() < b.ids.size(); });
  std::vector<float> vectors(texts.size() * dim_);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (size_t begin = 0; begin < inputs.size();) {
    size_t end = begin, tokens = 0;
    while (end < inputs.size() && end - begin < kBatchTexts && tokens + inputs[end].ids.size() <= kBatchTokens)
      tokens += inputs[end++].ids.size();
    TRY(Run(std::span(inputs).subspan(begin, end - begin), vectors.data()));
    begin = end;
  }
  return vectors;
}

// vectors: [texts][dim] of the whole call.
Status LlamaEmbedder::Run(std::span<const Input> inputs, float* vectors) {
  batch_->Clear();
  for (size_t i = 0; i < inputs.size(); ++i) batch_->Add(inputs[i].ids, static_cast<llama_seq_id>(i));
  (void)TakeLlamaError();
  int32_t status = 0;
  try {
    // Models with a causal attention have a memory, which each batch finds empty.
    const llama_memory_t memory = llama_get_memory(context_.get());
    if (memory != nullptr) llama_memory_clear(memory, false);
    status =
        memory != nullptr ? llama_decode(context_.get(), batch_->get()) : llama_encode(context_.get(), batch_->get());
  } catch (const std::exception& e) {
    return Fail(ErrorCode::kEngine, std::string("llama.cpp could not embed: ") + e.what());
  }
  if (status != 0)
    return Fail(ErrorCode::kEngine, "llama.cpp could not embed (" + std::to_string(status) + "): " + TakeLlamaError());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const float* vector = llama_get_embeddings_seq(context_.get(), static_cast<llama_seq_id>(i));
    if (vector == nullptr || !Normalize(vector, dim_, vectors + inputs[i].place * dim_))
      return Fail(ErrorCode::kEngine, name_ + " gave no usable vector for text " + std::to_string(inputs[i].place + 1) +
                                          ": its weights may be damaged, convert it again");
  }
  return {};
}

}  // namespace inferscale
