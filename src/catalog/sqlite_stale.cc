#include "catalog/sqlite_stale.h"

#include <algorithm>

#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_queue.h"

namespace inferscale::sqlite {

namespace {

bool SawOneOf(std::string_view blob, const Gone& gone) {
  const auto seen = UnpackSeen(blob);
  if (!seen) return true;
  return std::any_of(seen->begin(), seen->end(), [&](const Seen& each) {
    return each.kind == SeenKind::kFact ? gone.facts.contains(each.seq) : gone.turns.contains(each.seq);
  });
}

DeadRecord DeadOf(const Cursor& cursor, NamespaceId ns) {
  return {0, cursor.UInt(0), ns, cursor.UInt(1), {cursor.UInt(2), cursor.UInt(3), cursor.UInt(4)}};
}

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
    TRY_ASSIGN(Cursor cursor,
               op.db.Query("SELECT record, fact, segment, offset, bytes, saw FROM kv WHERE ns=?", op.ns));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      const bool is_own = gone.own && gone.facts.contains(cursor.UInt(1));
      if (is_own || SawOneOf(cursor.Bytes(5), gone)) dead.push_back(DeadOf(cursor, op.ns));
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
    TRY_ASSIGN(Cursor cursor, op.db.Query("SELECT record, fact, segment, offset, bytes FROM kv WHERE record=? AND ns=?",
                                          record, op.ns));
    TRY_ASSIGN(const bool found, cursor.Next());
    if (!found) return {};
    dead = DeadOf(cursor, op.ns);
  }
  TRY(Kill(op, dead));
  return requeue ? Requeue(op, dead.fact) : Status();
}

}  // namespace inferscale::sqlite
