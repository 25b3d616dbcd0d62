// KV rows as the store needs them: reconciliation, eviction, compaction, the erase list.
#include <map>

#include "base/limits.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_kv_rows.h"
#include "catalog/sqlite_stale.h"

namespace inferscale::sqlite {

Status SqliteCatalog::ScanRecords(const std::function<bool(const KvRow&)>& row) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv ORDER BY record"));
  return ReadRecords(cursor, row);
}

Result<std::vector<KvRow>> SqliteCatalog::RecordsOf(NamespaceId ns, size_t limit) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor,
             (*reader).Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv WHERE ns=? ORDER BY record LIMIT ?", ns, limit));
  std::vector<KvRow> rows;
  TRY(ReadRecords(cursor, [&](const KvRow& row) { return rows.push_back(row), true; }));
  return rows;
}

Result<Change> SqliteCatalog::DropRecords(std::span<const RecordSeq> records, bool requeue) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  Connection& db = *writer;
  std::map<NamespaceId, std::vector<RecordSeq>> by_namespace;
  for (const RecordSeq record : records) {
    TRY_ASSIGN(const auto ns, db.Value("SELECT ns FROM kv WHERE record=?", record));
    if (ns) by_namespace[*ns].push_back(record);
  }
  struct Change change;
  for (const auto& [ns, dropped] : by_namespace) {
    Op op{db, ns, Now(), std::move(change)};
    for (const RecordSeq record : dropped) TRY(DropRecord(op, record, requeue));
    TRY(op.Finish());
    change = std::move(op.change);
  }
  TRY(writer.Commit());
  return change;
}

Result<std::vector<DeadRecord>> SqliteCatalog::MoveRecords(std::span<const std::pair<RecordSeq, KvLocation>> moves) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  Connection& db = *writer;
  std::vector<DeadRecord> dead;
  for (const auto& [record, to] : moves) {
    TRY(db.Run("UPDATE kv SET segment=?, offset=?, bytes=? WHERE record=? AND bytes=?", to.segment, to.offset, to.bytes,
               record, to.bytes));
    if (db.changes() == 0) TRY(EraseLater(db, {0, record, 0, 0, to}, dead));
  }
  TRY(writer.Commit());
  return dead;
}

Result<std::vector<DeadRecord>> SqliteCatalog::PendingErase(size_t limit) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(
      Cursor cursor,
      (*reader).Query("SELECT id, record, ns, fact, segment, offset, bytes FROM erase ORDER BY id LIMIT ?", limit));
  std::vector<DeadRecord> pending;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return pending;
    pending.push_back({cursor.UInt(0),
                       cursor.UInt(1),
                       cursor.Int(2),
                       cursor.UInt(3),
                       {cursor.UInt(4), cursor.UInt(5), cursor.UInt(6)}});
  }
}

Status SqliteCatalog::ForgetErased(std::span<const uint64_t> erase_ids) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  for (const uint64_t id : erase_ids) TRY((*writer).Run("DELETE FROM erase WHERE id=?", id));
  return writer.Commit();
}

}  // namespace inferscale::sqlite
