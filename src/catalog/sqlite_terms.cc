#include "catalog/sqlite_terms.h"

#include <algorithm>

#include "base/limits.h"
#include "catalog/sqlite_codec.h"

namespace inferscale::sqlite {

namespace {

Status CheckTerms(std::span<const TermCount> terms) {
  if (terms.size() > limits::kTermsPerFact) return Fail(ErrorCode::kTooLarge, "a fact has too many different words");
  std::vector<std::string_view> sorted;
  for (const TermCount& term : terms) {
    if (term.term.empty() || term.term.size() > limits::kTermBytes || term.count == 0)
      return Fail(ErrorCode::kInvalidArgument, "a search term is empty, longer than " +
                                                   std::to_string(limits::kTermBytes) + " bytes, or not counted");
    sorted.push_back(term.term);
  }
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return Fail(ErrorCode::kInvalidArgument, "a search term is given twice for one fact");
  return {};
}

Result<std::vector<TermRef>> TermsOf(Connection& db, FactSeq seq) {
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT terms FROM fact_index WHERE seq=?", seq));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (found)
    if (auto terms = UnpackTerms(cursor.Bytes(0))) return *std::move(terms);
  // Damaged: the postings of all namespaces are gone through, slow but right.
  std::vector<TermRef> terms;
  TRY_ASSIGN(Cursor postings, db.Query("SELECT term, count FROM postings WHERE seq=?", seq));
  for (;;) {
    TRY_ASSIGN(const bool more, postings.Next());
    if (!more) return terms;
    terms.push_back({postings.Int(0), postings.U32(1)});
  }
}

}  // namespace

Result<std::optional<StoredEmbedder>> FindEmbedder(Connection& db) {
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT id, name, key, dims FROM embedders ORDER BY id DESC LIMIT 1"));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return std::optional<StoredEmbedder>();
  const auto key = HashOfBlob(cursor.Bytes(2));
  if (!key) return Fail(ErrorCode::kCorrupt, "catalog: the embedder's key is damaged; run `inferscale reembed`");
  return std::optional<StoredEmbedder>({cursor.Int(0), {std::string(cursor.Text(1)), *key, cursor.U32(3)}});
}

Status CheckSearchData(const SearchData& search, const EmbedderInfo& embedder) {
  if (search.vector.size() != embedder.dims)
    return Fail(ErrorCode::kMismatch, "a vector has " + std::to_string(search.vector.size()) +
                                          " dimensions, those of " + embedder.name + " have " +
                                          std::to_string(embedder.dims));
  return CheckTerms(search.terms);
}

Status IndexFact(Op& op, FactSeq seq, int64_t embedder, const SearchData& search) {
  std::vector<TermRef> terms;
  terms.reserve(search.terms.size());
  for (const TermCount& term : search.terms) {
    TRY_ASSIGN(const auto id, op.db.Value("INSERT INTO terms(ns, term, sum, facts) VALUES(?,?,?,1)"
                                          " ON CONFLICT(ns, term) DO UPDATE SET facts=facts+1 RETURNING id",
                                          op.ns, std::string_view(term.term), SumOfTerm(op.ns, term.term)));
    TRY(op.db.Run("INSERT INTO postings(term, seq, count) VALUES(?,?,?)", *id, seq, term.count));
    terms.push_back({*id, term.count});
  }
  op.searchable += 1;
  op.words += search.words;
  const std::string vector = PackVector(search.vector), packed = PackTerms(terms);
  return op.db.Run("INSERT INTO fact_index(seq, embedder, vector, terms) VALUES(?,?,?,?)", seq, embedder, Blob{vector},
                   Blob{packed});
}

Status UnindexFact(Op& op, FactSeq seq, uint32_t words) {
  TRY_ASSIGN(const std::vector<TermRef> terms, TermsOf(op.db, seq));
  for (const TermRef& term : terms) {
    TRY(op.db.Run("DELETE FROM postings WHERE term=? AND seq=?", term.term, seq));
    TRY_ASSIGN(const auto left, op.db.Value("UPDATE terms SET facts=facts-1 WHERE id=? RETURNING facts", term.term));
    if (left && *left <= 0) TRY(op.db.Run("DELETE FROM terms WHERE id=?", term.term));
  }
  TRY(op.db.Run("DELETE FROM fact_index WHERE seq=?", seq));
  if (op.db.changes() == 0) return {};  // it was not indexed, so it was not counted
  op.searchable -= 1;
  op.words -= words;
  return {};
}

}  // namespace inferscale::sqlite
