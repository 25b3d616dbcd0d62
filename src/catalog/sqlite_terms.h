// Vectors and keyword terms of facts.
#pragma once

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_op.h"

namespace inferscale::sqlite {

// The embedder in use; nullopt: none was named yet.
struct StoredEmbedder {
  int64_t id = 0;
  EmbedderInfo info;
};
Result<std::optional<StoredEmbedder>> FindEmbedder(Connection& db);

// kInvalidArgument, kMismatch, kTooLarge: not something that can be stored.
Status CheckSearchData(const SearchData& search, const EmbedderInfo& embedder);

// Stores a fact's vector and terms, and takes them away again with everything that only it had. words: of its row.
Status IndexFact(Op& op, FactSeq seq, int64_t embedder, const SearchData& search);
Status UnindexFact(Op& op, FactSeq seq, uint32_t words);

}  // namespace inferscale::sqlite
