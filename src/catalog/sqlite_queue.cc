#include "catalog/sqlite_queue.h"

#include "base/limits.h"
#include "catalog/sqlite_impl.h"

namespace inferscale::sqlite {

namespace {

constexpr size_t kErrorBytes = 500;  // of an error message that is kept

#define INFERSCALE_QUEUE_COLUMNS "fact, ns, added_us, due_us, attempts, priority, last_error"

Result<std::vector<QueueItem>> ReadQueue(Cursor& cursor) {
  std::vector<QueueItem> items;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return items;
    items.push_back({cursor.UInt(0), cursor.Int(1), cursor.Int(2), cursor.Int(3), cursor.U32(4),
                     static_cast<int32_t>(cursor.Int(5)), std::string(cursor.Text(6))});
  }
}

Micros Backoff(int64_t attempts) {
  Micros wait = limits::kEncodeBackoffMicros;
  for (int64_t i = 1; i < attempts && wait < limits::kEncodeBackoffMaxMicros; ++i) wait *= 2;
  return std::min(wait, limits::kEncodeBackoffMaxMicros);
}

}  // namespace

Result<bool> EnqueueFact(Connection& db, FactSeq fact, int32_t priority, Micros due_us, Micros now) {
  TRY(
      db.Run("INSERT INTO queue(fact, ns, order_day, arrival, added_us, due_us, priority, attempts, last_error)"
             " SELECT seq, ns, order_day, coalesce(part_of, seq), ?1, ?2, ?3, 0, '' FROM facts"
             " WHERE seq=?4 AND kind<>1 AND superseded_by IS NULL"
             " ON CONFLICT(fact) DO UPDATE SET due_us=min(due_us, excluded.due_us),"
             " priority=max(priority, excluded.priority)",
             now, due_us, priority, fact));
  return db.changes() > 0;
}

Result<std::vector<QueueItem>> SqliteCatalog::DueFacts(size_t limit) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_QUEUE_COLUMNS
                                            " FROM queue INDEXED BY queue_by_priority WHERE due_us<=?"
                                            " ORDER BY priority DESC, ns, order_day, arrival, fact LIMIT ?",
                                            Now(), limit));
  return ReadQueue(cursor);
}

Result<std::vector<QueueItem>> SqliteCatalog::QueuedFacts(NamespaceId ns) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_QUEUE_COLUMNS
                                            " FROM queue WHERE ns=? ORDER BY priority DESC, order_day, arrival, fact",
                                            ns));
  return ReadQueue(cursor);
}

Status SqliteCatalog::Enqueue(std::span<const FactSeq> facts, int32_t priority, Micros due_us) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  for (const FactSeq fact : facts) TRY(EnqueueFact(*writer, fact, priority, due_us, Now()));
  return writer.Commit();
}

Result<uint64_t> SqliteCatalog::EnqueueAll(NamespaceId ns) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  Connection& db = *writer;
  TRY(
      db.Run("INSERT INTO queue(fact, ns, order_day, arrival, added_us, due_us, priority, attempts, last_error)"
             " SELECT seq, ns, order_day, coalesce(part_of, seq), ?1, ?1, 0, 0, '' FROM facts"
             " WHERE ns=?2 AND kind<>1 AND superseded_by IS NULL ON CONFLICT(fact) DO UPDATE SET"
             " due_us=min(due_us, excluded.due_us)",
             Now(), ns));
  const uint64_t queued = db.changes();
  TRY(writer.Commit());
  return queued;
}

Status SqliteCatalog::Dequeue(std::span<const FactSeq> facts) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  for (const FactSeq fact : facts) TRY((*writer).Run("DELETE FROM queue WHERE fact=?", fact));
  return writer.Commit();
}

Status SqliteCatalog::EncodeFailed(std::span<const FactSeq> facts, std::string_view error) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  Connection& db = *writer;
  const Micros now = Now();
  for (const FactSeq fact : facts) {
    TRY_ASSIGN(const auto attempts, db.Value("UPDATE queue SET attempts=attempts+1, last_error=? WHERE fact=?"
                                             " RETURNING attempts",
                                             error.substr(0, kErrorBytes), fact));
    if (attempts) TRY(db.Run("UPDATE queue SET due_us=? WHERE fact=?", now + Backoff(*attempts), fact));
  }
  return writer.Commit();
}

Result<QueueCounts> SqliteCatalog::CountQueue() {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT count(*), coalesce(sum(due_us<=?), 0), coalesce(sum(attempts>0), 0)"
                                            " FROM queue",
                                            Now()));
  TRY(cursor.Next());
  return QueueCounts{cursor.UInt(0), cursor.UInt(1), cursor.UInt(2)};
}

}  // namespace inferscale::sqlite
