// Search: embedder, vectors, postings.
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_terms.h"

namespace inferscale::sqlite {

namespace {

Status CheckEmbedder(const EmbedderInfo& embedder) {
  if (embedder.dims < 1 || embedder.dims > static_cast<uint32_t>(limits::kEmbedDimMax))
    return Fail(ErrorCode::kInvalidArgument,
                "an embedder has 1 to " + std::to_string(limits::kEmbedDimMax) + " dimensions");
  if (embedder.name.size() > limits::kKeyBytes) return Fail(ErrorCode::kTooLarge, "an embedder's name is too long");
  return {};
}

Status InsertEmbedder(Connection& db, const EmbedderInfo& embedder) {
  const std::string key = HashBlob(embedder.key);
  return db.Run("INSERT INTO embedders(name, key, dims) VALUES(?,?,?)", std::string_view(embedder.name), Blob{key},
                embedder.dims);
}

std::string Describe(const EmbedderInfo& embedder) {
  return embedder.name + " (" + std::to_string(embedder.dims) + " dimensions)";
}

Result<TermPostings> PostingsOf(Connection& db, NamespaceId ns, std::string_view term, size_t cap) {
  TermPostings found;
  int64_t id = 0;
  {
    TRY_ASSIGN(Cursor cursor, db.Query("SELECT id, facts, sum FROM terms WHERE ns=? AND term=?", ns, term));
    TRY_ASSIGN(const bool known, cursor.Next());
    if (!known || cursor.Int(2) != SumOfTerm(ns, term)) return found;  // damaged: as if no fact had it
    id = cursor.Int(0);
    found.facts = cursor.UInt(1);
  }
  found.too_common = found.facts > cap;
  if (found.too_common) return found;
  found.postings.reserve(found.facts);
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT seq, count FROM postings WHERE term=? ORDER BY seq", id));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return found;
    found.postings.push_back({cursor.UInt(0), cursor.U32(1)});
  }
}

// Replaces vector and terms of one fact, when it still has that version.
Status Reindex(Connection& db, const FactVector& given, const StoredEmbedder& embedder, Micros now) {
  TRY(CheckSearchData(given.search, embedder.info));
  FactRow row;
  {
    TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_FACT_COLUMNS " FROM facts f WHERE f.seq=?", given.fact));
    TRY_ASSIGN(const bool found, cursor.Next());
    if (!found || !ReadFact(cursor, row) || row.version != given.version || row.kind == FactKind::kParent) return {};
  }
  Op op{db, row.name_space, now};
  TRY(UnindexFact(op, row.seq, row.words));
  row.words = given.search.words;
  TRY(StoreFact(db, row));
  TRY(IndexFact(op, row.seq, embedder.id, given.search));
  op.content = true;
  return op.Finish();
}

}  // namespace

Result<std::optional<EmbedderInfo>> SqliteCatalog::CurrentEmbedder() {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(*reader));
  return embedder ? std::optional(embedder->info) : std::nullopt;
}

Status SqliteCatalog::UseEmbedder(const EmbedderInfo& embedder) {
  TRY(CheckEmbedder(embedder));
  TRY_ASSIGN(Pool::Writer writer, Write());
  TRY_ASSIGN(const std::optional<StoredEmbedder> stored, FindEmbedder(*writer));
  if (!stored) {
    TRY(InsertEmbedder(*writer, embedder));
    return writer.Commit();
  }
  if (stored->info.key == embedder.key && stored->info.dims == embedder.dims) return {};
  return Fail(ErrorCode::kMismatch, "the vectors here were made by " + Describe(stored->info) + ", not by " +
                                        Describe(embedder) + ": use that one, or run `inferscale reembed`");
}

Status SqliteCatalog::SwitchEmbedder(const EmbedderInfo& embedder) {
  TRY(CheckEmbedder(embedder));
  TRY_ASSIGN(Pool::Writer writer, Write());
  TRY_ASSIGN(const std::optional<StoredEmbedder> stored, FindEmbedder(*writer));
  if (stored && stored->info == embedder) return {};  // and its vectors are what they were
  TRY(InsertEmbedder(*writer, embedder));
  TRY((*writer).Run("UPDATE namespaces SET generation=generation+1"));
  return writer.Commit();
}

Result<std::vector<FactRow>> SqliteCatalog::FactsToEmbed(FactSeq after, size_t limit) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  Connection& db = *reader;
  TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(db));
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_FACT_COLUMNS
                                     " FROM facts f LEFT JOIN fact_index i ON i.seq=f.seq WHERE f.seq>? AND f.kind<>1"
                                     " AND (i.embedder IS NULL OR i.embedder<>?) ORDER BY f.seq",
                                     after, embedder ? embedder->id : 0));
  return ReadFacts(cursor, 0, std::min(limit, limits::kListPage));
}

Status SqliteCatalog::PutVectors(std::span<const FactVector> vectors) {
  if (vectors.size() > limits::kFactsPerBatch) return Fail(ErrorCode::kTooLarge, "too many vectors at once");
  TRY_ASSIGN(Pool::Writer writer, Write());
  TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(*writer));
  if (!embedder) return Fail(ErrorCode::kInvalidArgument, "no embedder was named for this catalog yet");
  for (const FactVector& vector : vectors) TRY(Reindex(*writer, vector, *embedder, Now()));
  TRY(writer.Commit());
  has_residue_ = true;
  return {};
}

Result<std::vector<TermPostings>> SqliteCatalog::Postings(NamespaceId ns, std::span<const std::string> terms,
                                                          size_t cap) {
  if (terms.size() > limits::kTermsPerQuery) return Fail(ErrorCode::kTooLarge, "a query has too many different words");
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  std::vector<TermPostings> all;
  for (const std::string& term : terms) {
    TRY_ASSIGN(TermPostings postings, PostingsOf(*reader, ns, term, cap));
    all.push_back(std::move(postings));
  }
  return all;
}

}  // namespace inferscale::sqlite
