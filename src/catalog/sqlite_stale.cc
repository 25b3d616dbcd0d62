#include "catalog/sqlite_stale.h"

#include <algorithm>

#include "catalog/sqlite_kv_rows.h"
#include "catalog/sqlite_queue.h"

namespace inferscale::sqlite {

namespace {

bool SawOneOf(const KvRow& row, const Gone& gone) {
  return std::any_of(row.saw.begin(), row.saw.end(), [&](const Seen& each) {
    return each.kind == SeenKind::kFact ? gone.facts.contains(each.seq) : gone.turns.contains(each.seq);
  });
}

DeadRecord DeadOf(const KvRow& row) { return {0, row.record, row.name_space, row.fact, row.location}; }

// Moves a usable record to the erase list.
Status Kill(Op& op, DeadRecord dead) {
  TRY(op.db.Run("DELETE FROM kv WHERE record=?", dead.record));
  op.kv_bytes -= static_cast<int64_t>(dead.location.bytes);
  return EraseLater(op.db, dead, op.change.dead);
}

Status Requeue(Op& op, FactSeq fact) {
  TRY_ASSIGN(const bool live, EnqueueFact(op.db, fact, 0, op.now, op.now));
  if (live) op.change.requeued.push_back(fact);
  return {};
}

// Runs with a member of `members` or any entry of `entries`.
Status CountStale(Op& op, const std::unordered_set<FactSeq>& members, const std::unordered_set<FactSeq>& entries) {
  std::unordered_set<int64_t> runs;
  const auto collect = [&](FactSeq fact, int64_t lowest_role) -> Status {
    TRY_ASSIGN(Cursor cursor,
               op.db.Query("SELECT run FROM run_entries WHERE fact=? AND role>=? AND ns=?", fact, lowest_role, op.ns));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) return {};
      runs.insert(cursor.Int(0));
    }
  };
  for (const FactSeq fact : members) TRY(collect(fact, 1));
  for (const FactSeq fact : entries) TRY(collect(fact, 0));
  for (const int64_t run : runs)
    TRY(op.db.Run("UPDATE runs SET stale_count=stale_count+1 WHERE ns=? AND number=?", op.ns, run));
  return {};
}

}  // namespace

Status EraseLater(Connection& db, DeadRecord dead, std::vector<DeadRecord>& out) {
  TRY(db.Run("INSERT INTO erase(record, ns, fact, segment, offset, bytes) VALUES(?,?,?,?,?,?)", dead.record,
             dead.name_space, dead.fact, dead.location.segment, dead.location.offset, dead.location.bytes));
  dead.erase_id = static_cast<uint64_t>(db.last_insert_id());
  out.push_back(dead);
  return {};
}

Status MakeStale(Op& op, const Gone& gone) {
  std::vector<DeadRecord> dead;
  {
    TRY_ASSIGN(Cursor cursor, op.db.Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv WHERE ns=?", op.ns));
    KvRow row;
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      const bool fits = ReadRecord(cursor, row);
      const bool is_own = gone.own && gone.facts.contains(row.fact);
      if (!fits || is_own || SawOneOf(row, gone)) dead.push_back(DeadOf(row));
    }
  }
  std::unordered_set<FactSeq> members;
  for (const DeadRecord& each : dead) {
    TRY(Kill(op, each));
    members.insert(each.fact);
  }
  for (const FactSeq fact : members)
    if (!gone.own || !gone.facts.contains(fact)) TRY(Requeue(op, fact));
  return CountStale(op, members, gone.facts);
}

Status DropRecord(Op& op, RecordSeq record, bool requeue) {
  DeadRecord dead;
  {
    TRY_ASSIGN(Cursor cursor,
               op.db.Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv WHERE record=? AND ns=?", record, op.ns));
    TRY_ASSIGN(const bool found, cursor.Next());
    if (!found) return {};
    KvRow row;
    (void)ReadRecord(cursor, row);  // damaged or not, it goes
    dead = DeadOf(row);
  }
  TRY(Kill(op, dead));
  return requeue ? Requeue(op, dead.fact) : Status();
}

}  // namespace inferscale::sqlite
