// The facts of one file as the main path's source: `inferscale ask --facts`.
#pragma once

#include "embed/embedder.h"
#include "memory/encoder.h"
#include "memory/fact_set.h"
#include "memory/fact_source.h"
#include "store/record_cache.h"

namespace inferscale {

class FileSource : public FactSource {
 public:
  // All outlive the source. encoder and cache may be null: then every fact is text.
  FileSource(Embedder& embedder, const FactSet& facts, const Encoder* encoder, RecordCache* cache, KvShape shape)
      : embedder_(embedder), facts_(facts), encoder_(encoder), cache_(cache), shape_(shape) {}

  Result<std::vector<RecalledFact>> Recall(std::string_view question, size_t top_k) override;
  Result<std::vector<RecordHandle>> Load(std::span<const RecalledFact> facts) override;
  Result<std::vector<bool>> HasRecords(std::span<const RecalledFact> facts) override;

 private:
  Embedder& embedder_;
  const FactSet& facts_;
  const Encoder* encoder_;
  RecordCache* cache_;
  KvShape shape_;
};

}  // namespace inferscale
