// Checks of what is derived from facts: search data and KV rows.
#include <unordered_map>

#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_fsck.h"
#include "catalog/sqlite_kv_rows.h"
#include "catalog/sqlite_stale.h"

namespace inferscale::sqlite {

namespace {

// One fact's row of fact_index.
struct Indexed {
  FactSeq seq = 0;
  bool vector_fits = false;
  std::optional<std::vector<TermRef>> terms;  // nullopt: damaged
};

Result<std::vector<Indexed>> ReadIndex(Connection& db) {
  std::vector<Indexed> all;
  std::vector<float> vector;
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT i.seq, i.vector, i.terms, coalesce(e.dims, 0) FROM fact_index i"
                                     " LEFT JOIN embedders e ON e.id=i.embedder ORDER BY i.seq"));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return all;
    // Without an embedder it waits to be embedded: there is nothing to compare.
    const uint32_t dims = cursor.U32(3);
    const bool fits = dims == 0 || UnpackVector(cursor.Bytes(1), dims, vector);
    all.push_back({cursor.UInt(0), fits, UnpackTerms(cursor.Bytes(2))});
  }
}

// Every term of the fact has its posting.
Result<bool> PostingsFit(Connection& db, const Indexed& fact) {
  for (const TermRef& term : *fact.terms) {
    TRY_ASSIGN(const auto count, db.Value("SELECT p.count FROM postings p JOIN terms t ON t.id=p.term"
                                          " JOIN facts f ON f.seq=p.seq AND f.ns=t.ns WHERE p.term=? AND p.seq=?",
                                          term.term, fact.seq));
    if (count != static_cast<int64_t>(term.count)) return false;
  }
  return true;
}

// Its words are gone from the index, and it has to be embedded anew, which brings both back.
Status Unembed(Fsck& fsck, FactSeq seq, bool drop_terms) {
  TRY(fsck.db.Run("UPDATE fact_index SET embedder=0 WHERE seq=?", seq));
  if (!drop_terms) return {};
  const std::string none = PackTerms({});
  TRY(fsck.db.Run("UPDATE fact_index SET terms=? WHERE seq=?", Blob{none}, seq));
  return fsck.db.Run("DELETE FROM postings WHERE seq=?", seq);
}

Status CheckIndexedFacts(Fsck& fsck) {
  TRY_ASSIGN(const std::vector<Indexed> all, ReadIndex(fsck.db));
  uint64_t expected = 0;
  for (const Indexed& fact : all) {
    bool terms_fit = fact.terms.has_value();
    if (terms_fit) {
      TRY_ASSIGN(terms_fit, PostingsFit(fsck.db, fact));
      expected += terms_fit ? fact.terms->size() : 0;
    }
    if (terms_fit && fact.vector_fits) continue;
    fsck.Report("the search data of fact number " + std::to_string(fact.seq) + " is damaged: it is embedded anew",
                fsck.repair);
    if (fsck.repair) TRY(Unembed(fsck, fact.seq, !terms_fit));
  }
  // What is left are postings that no fact names. They can be told only by looking, which is done when there are any.
  TRY_ASSIGN(const auto stored, fsck.db.Value("SELECT count(*) FROM postings"));
  if (static_cast<uint64_t>(stored.value_or(0)) == expected) return {};
  std::unordered_map<FactSeq, std::unordered_map<int64_t, bool>> named;
  for (const Indexed& fact : all)
    if (fact.terms)
      for (const TermRef& term : *fact.terms) named[fact.seq][term.term] = true;
  std::vector<std::pair<int64_t, FactSeq>> strays;
  {
    TRY_ASSIGN(Cursor cursor, fsck.db.Query("SELECT term, seq FROM postings"));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      if (!named[cursor.UInt(1)][cursor.Int(0)]) strays.emplace_back(cursor.Int(0), cursor.UInt(1));
    }
  }
  fsck.Count(strays.size(), "keyword entries that no fact has", fsck.repair);
  if (fsck.repair)
    for (const auto& [term, seq] : strays) TRY(fsck.db.Run("DELETE FROM postings WHERE term=? AND seq=?", term, seq));
  return {};
}

// A word that is not what it was: it goes, and the facts that have it are embedded anew, which brings it back.
Status CheckTerms(Fsck& fsck) {
  std::vector<int64_t> damaged;
  {
    TRY_ASSIGN(Cursor cursor, fsck.db.Query("SELECT id, ns, term, sum FROM terms"));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      if (SumOfTerm(cursor.Int(1), cursor.Text(2)) != cursor.Int(3)) damaged.push_back(cursor.Int(0));
    }
  }
  fsck.Count(damaged.size(), "damaged words: the facts that have them are embedded anew", fsck.repair);
  if (!fsck.repair) return {};
  // Without the word its facts' terms do not fit any more, which CheckIndexedFacts sees.
  for (const int64_t term : damaged) TRY(fsck.db.Run("DELETE FROM terms WHERE id=?", term));
  return {};
}

Status CheckTermCounts(Fsck& fsck) {
  TRY_ASSIGN(const auto wrong, fsck.db.Value("SELECT count(*) FROM terms t WHERE facts<>"
                                             "(SELECT count(*) FROM postings p WHERE p.term=t.id)"));
  fsck.Count(static_cast<uint64_t>(wrong.value_or(0)), "words with a wrong number of facts", fsck.repair);
  if (!fsck.repair || wrong.value_or(0) == 0) return {};
  TRY(fsck.db.Run("UPDATE terms AS t SET facts=(SELECT count(*) FROM postings p WHERE p.term=t.id)"));
  return fsck.db.Run("DELETE FROM terms WHERE facts=0");
}

// A record's row; whether that is whole, and its fact as it says.
struct Record {
  KvRow row;
  bool fits = false;
};

Result<std::vector<Record>> ReadRecords(Connection& db) {
  std::vector<Record> all;
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_KV_COLUMNS
                                     ", EXISTS(SELECT 1 FROM facts f WHERE f.seq=kv.fact AND f.version=kv.version AND"
                                     " f.ns=kv.ns AND f.kind<>1 AND f.superseded_by IS NULL) FROM kv"));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return all;
    Record& record = all.emplace_back();
    record.fits = ReadRecord(cursor, record.row) && cursor.Int(kKvColumns) != 0;
  }
}

// Nothing that it saw is gone, changed or superseded, or got an expiry.
Result<bool> SawWhatIsThere(Connection& db, const KvRow& row) {
  for (const Seen& seen : row.saw) {
    const std::string_view sql = seen.kind == SeenKind::kFact
                                     ? "SELECT version FROM facts WHERE seq=? AND ns=? AND superseded_by IS NULL"
                                       " AND expires_us IS NULL"
                                     : "SELECT version FROM turns WHERE seq=? AND ns=?";
    TRY_ASSIGN(const auto version, db.Value(sql, seen.seq, row.name_space));
    if (version != static_cast<int64_t>(seen.version)) return false;
  }
  return true;
}

}  // namespace

Status CheckSearch(Fsck& fsck) {
  TRY(CheckTerms(fsck));
  TRY(CheckIndexedFacts(fsck));
  TRY(CheckTermCounts(fsck));
  TRY_ASSIGN(const auto bare, fsck.db.Value("SELECT count(*) FROM facts f WHERE f.kind<>1 AND NOT EXISTS"
                                            " (SELECT 1 FROM fact_index i WHERE i.seq=f.seq)"));
  fsck.Count(static_cast<uint64_t>(bare.value_or(0)), "facts without search data: run `inferscale reembed`", false);
  TRY_ASSIGN(const auto extra, fsck.db.Value("SELECT count(*) FROM fact_index i JOIN facts f ON f.seq=i.seq"
                                             " WHERE f.kind=1"));
  fsck.Count(static_cast<uint64_t>(extra.value_or(0)), "long facts that are searched beside their parts", fsck.repair);
  if (!fsck.repair || extra.value_or(0) == 0) return {};
  return fsck.db.Run("DELETE FROM fact_index WHERE seq IN (SELECT seq FROM facts WHERE kind=1)");
}

Status CheckRecords(Fsck& fsck) {
  TRY_ASSIGN(const std::vector<Record> all, ReadRecords(fsck.db));
  uint64_t wrong = 0;
  for (const Record& record : all) {
    bool usable = record.fits;
    if (usable) {
      TRY_ASSIGN(usable, SawWhatIsThere(fsck.db, record.row));
    }
    if (usable) continue;
    ++wrong;
    if (!fsck.repair) continue;
    Op op{fsck.db, record.row.name_space, fsck.now};
    TRY(DropRecord(op, record.row.record, true));
    TRY(op.Finish());
  }
  fsck.Count(wrong, "KV records that must not be used", fsck.repair);
  TRY_ASSIGN(const auto queued, fsck.db.Value("SELECT count(*) FROM queue q JOIN facts f ON f.seq=q.fact"
                                              " WHERE f.kind=1 OR f.superseded_by IS NOT NULL OR f.ns<>q.ns"));
  fsck.Count(static_cast<uint64_t>(queued.value_or(0)), "queued facts that are not to be encoded", fsck.repair);
  if (!fsck.repair || queued.value_or(0) == 0) return {};
  return fsck.db.Run(
      "DELETE FROM queue WHERE fact IN (SELECT q.fact FROM queue q JOIN facts f ON f.seq=q.fact"
      " WHERE f.kind=1 OR f.superseded_by IS NOT NULL OR f.ns<>q.ns)");
}

}  // namespace inferscale::sqlite
