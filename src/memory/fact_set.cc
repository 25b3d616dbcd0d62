#include "memory/fact_set.h"

#include <algorithm>

#include "base/limits.h"
#include "index/vector_cache.h"

namespace inferscale {

namespace {
constexpr size_t kEmbedBatch = 32;  // texts per call: enough to use both cores, small enough for a live progress bar
}

Result<FactSet> FactSet::Make(std::vector<Fact> facts, const Tokenizer& tokenizer, Embedder& embedder,
                              VectorCache* cache, const ProgressFn& progress) {
  FactSet set(embedder.dim());
  std::vector<std::string> texts;
  std::vector<Hash128> digests;
  for (Fact& fact : facts) {
    texts.push_back(fact.PromptText());
    digests.push_back(HashBytes(texts.back()));
    Tokens tokens = tokenizer.Text(texts.back());
    if (tokens.size() > limits::kRecordTokens)
      return Fail(ErrorCode::kTooLarge, "fact " + fact.id + " has " + std::to_string(tokens.size()) +
                                            " tokens for this model, more than " +
                                            std::to_string(limits::kRecordTokens) + ": split it into several facts");
    set.items_.push_back({std::move(fact), std::move(tokens)});
  }
  // Vectors: those of the cache, then the rest in batches.
  std::vector<std::vector<float>> vectors(set.items_.size());
  std::vector<size_t> missing;
  for (size_t i = 0; i < set.items_.size(); ++i) {
    const std::span<const float> kept = cache != nullptr ? cache->Find(digests[i]) : std::span<const float>();
    if (kept.empty())
      missing.push_back(i);
    else
      vectors[i].assign(kept.begin(), kept.end());
  }
  for (size_t at = 0; at < missing.size(); at += kEmbedBatch) {
    const size_t end = std::min(missing.size(), at + kEmbedBatch);
    std::vector<std::string_view> batch;
    for (size_t i = at; i < end; ++i) batch.push_back(texts[missing[i]]);
    TRY_ASSIGN(const std::vector<float> made, embedder.Embed(batch));
    for (size_t i = at; i < end; ++i) {
      const auto begin = made.begin() + static_cast<std::ptrdiff_t>((i - at) * set.index_.dim());
      vectors[missing[i]].assign(begin, begin + set.index_.dim());
      if (cache != nullptr) cache->Append(digests[missing[i]], vectors[missing[i]]);
    }
    if (progress) progress(end, missing.size());
  }
  set.embedded_ = missing.size();
  for (const std::vector<float>& vector : vectors) TRY(set.index_.Add(vector));
  return set;
}

size_t FactSet::tokens() const {
  size_t sum = 0;
  for (const Item& item : items_) sum += item.tokens.size();
  return sum;
}

}  // namespace inferscale
