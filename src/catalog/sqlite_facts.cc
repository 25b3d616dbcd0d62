// Reading facts.
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_terms.h"

namespace inferscale::sqlite {

namespace {

#define INFERSCALE_SCAN(order)                                                                                 \
  "SELECT " INFERSCALE_FACT_COLUMNS                                                                            \
  ", i.vector FROM facts f LEFT JOIN fact_index i ON i.seq=f.seq AND i.embedder=?1 WHERE f.ns=?2 AND f.seq>?3" \
  " AND (f.kind<>1 OR ?4) ORDER BY " order

constexpr std::string_view kScanBySeq = INFERSCALE_SCAN("f.seq");
// The index facts_by_order gives this order but for the parts of one parent, which are few.
constexpr std::string_view kScanByOrder = INFERSCALE_SCAN("f.order_day, coalesce(f.part_of, f.seq), f.seq");
#undef INFERSCALE_SCAN

Status ScanRows(Cursor& cursor, NamespaceId ns, uint32_t dims, const std::function<bool(const ScanRow&)>& use,
                ScanStats& stats) {
  FactRow row;
  std::vector<float> vector;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    if (!ReadFact(cursor, row) || row.name_space != ns) {
      ++stats.damaged_facts;
      continue;
    }
    std::span<const float> given;
    if (dims > 0 && !cursor.IsNull(kFactColumns)) {
      if (UnpackVector(cursor.Bytes(kFactColumns), dims, vector))
        given = vector;
      else
        ++stats.damaged_vectors;
    }
    ++stats.rows;
    if (!use({row, given})) return {};
  }
}

// An entry with the number that orders it, to see where entries were dropped.
struct NumberedEntry {
  int64_t n = 0;
  HistoryEntry entry;
};

bool HasWords(HistoryEvent event) { return event == HistoryEvent::kAdd || event == HistoryEvent::kUpdate; }

// Each text is stored once: what an entry made is what the next update replaced, or the fact's present text.
void FillNewTexts(std::vector<NumberedEntry>& entries, std::optional<std::string> present) {
  std::optional<std::string> next = std::move(present);
  int64_t last_n = entries.empty() ? 0 : entries.back().n;
  for (size_t i = entries.size(); i > 0; --i) {
    NumberedEntry& each = entries[i - 1];
    const HistoryEvent event = each.entry.event;
    if (event == HistoryEvent::kDelete || event == HistoryEvent::kExpire || last_n - each.n > 1) next.reset();
    last_n = each.n;
    if (!HasWords(event)) continue;
    each.entry.new_text = std::move(next);
    next = each.entry.old_text;
  }
}

}  // namespace

Result<FactRow> SqliteCatalog::GetFact(NamespaceId ns, std::string_view id) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  return FindFact(*reader, ns, id);
}

Result<std::vector<FactRow>> SqliteCatalog::GetFacts(NamespaceId ns, std::span<const FactSeq> seqs) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  std::vector<FactRow> rows;
  rows.reserve(seqs.size());
  for (const FactSeq seq : seqs) {
    TRY_ASSIGN(Cursor cursor,
               (*reader).Query("SELECT " INFERSCALE_FACT_COLUMNS " FROM facts f WHERE f.seq=? AND f.ns=?", seq, ns));
    TRY_ASSIGN(const bool found, cursor.Next());
    FactRow row;
    if (found && ReadFact(cursor, row)) rows.push_back(std::move(row));
  }
  return rows;
}

Result<std::vector<FactRow>> SqliteCatalog::FindFacts(std::string_view id) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor,
             (*reader).Query("SELECT " INFERSCALE_FACT_COLUMNS " FROM facts f WHERE f.id=? ORDER BY f.ns", id));
  TRY_ASSIGN(std::vector<FactRow> rows, ReadFacts(cursor, 0, limits::kListPage));
  std::erase_if(rows, [&](const FactRow& row) { return row.id != id; });  // a damaged index leads there
  return rows;
}

Result<std::vector<FactRow>> SqliteCatalog::GetParts(NamespaceId ns, FactSeq parent) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  return PartsOf(*reader, ns, parent);
}

Result<std::vector<FactRow>> SqliteCatalog::ListFacts(NamespaceId ns, const ListOptions& options) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  static constexpr std::string_view kOldest =
      "SELECT " INFERSCALE_FACT_COLUMNS
      " FROM facts f WHERE f.ns=?1 AND f.seq>?2 AND f.kind<>2 AND (f.superseded_by IS NULL OR ?3)"
      " AND (f.expires_us IS NULL OR f.expires_us>?4 OR ?5) ORDER BY f.seq";
  static constexpr std::string_view kNewest =
      "SELECT " INFERSCALE_FACT_COLUMNS
      " FROM facts f WHERE f.ns=?1 AND f.seq<?2 AND f.kind<>2 AND (f.superseded_by IS NULL OR ?3)"
      " AND (f.expires_us IS NULL OR f.expires_us>?4 OR ?5) ORDER BY f.seq DESC";
  const FactSeq from = options.newest_first && options.after == 0 ? FactSeq{INT64_MAX} : options.after;
  TRY_ASSIGN(Cursor cursor, (*reader).Query(options.newest_first ? kNewest : kOldest, ns, from, options.superseded,
                                            Now(), options.expired));
  return ReadFacts(cursor, ns, std::min(options.limit, limits::kListPage));
}

Result<ScanStats> SqliteCatalog::ScanFacts(NamespaceId ns, const ScanOptions& options,
                                           const std::function<bool(const ScanRow&)>& row) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  Connection& db = *reader;
  TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(db));
  const bool vectors = options.with_vector && embedder;
  ScanStats stats;
  TRY_ASSIGN(Cursor cursor, db.Query(options.by_order ? kScanByOrder : kScanBySeq, vectors ? embedder->id : -1, ns,
                                     options.after, options.parents));
  TRY(ScanRows(cursor, ns, vectors ? embedder->info.dims : 0, row, stats));
  return stats;
}

Result<std::vector<HistoryEntry>> SqliteCatalog::History(NamespaceId ns, std::string_view id) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  Connection& db = *reader;
  std::optional<std::string> present;
  const auto fact = FindFact(db, ns, id);
  if (fact && fact->kind != FactKind::kPart) present = fact->text;
  if (!fact && fact.error().code != ErrorCode::kNotFound) return tl::unexpected<Error>(fact.error());
  std::vector<NumberedEntry> entries;
  TRY_ASSIGN(Cursor cursor,
             db.Query("SELECT n, event, at_us, old_text FROM history WHERE ns=? AND fact=? ORDER BY n", ns, id));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) break;
    NumberedEntry& each = entries.emplace_back();
    each.n = cursor.Int(0);
    each.entry.event = static_cast<HistoryEvent>(cursor.Int(1));
    each.entry.at_us = cursor.Int(2);
    if (cursor.IsNull(3)) continue;
    each.entry.old_text = UnsealText(HistoryKey(ns, id, each.n), cursor.Bytes(3));
    if (!each.entry.old_text) return Fail(ErrorCode::kCorrupt, "catalog: the history of this fact is damaged");
  }
  FillNewTexts(entries, std::move(present));
  std::vector<HistoryEntry> history;
  for (NumberedEntry& each : entries) history.push_back(std::move(each.entry));
  return history;
}

}  // namespace inferscale::sqlite
