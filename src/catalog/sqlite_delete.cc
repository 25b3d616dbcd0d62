#include "catalog/sqlite_delete.h"

#include <map>
#include <string>
#include <vector>

#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_stale.h"
#include "catalog/sqlite_terms.h"

namespace inferscale::sqlite {

namespace {

// What deletion needs of a row: it works on damaged ones too.
struct Doomed {
  FactSeq seq = 0;
  std::string id;
  FactKind kind = FactKind::kWhole;
  std::string turn;
  bool live = true;  // not superseded
  uint32_t words = 0;
};

Doomed ReadDoomed(const Cursor& cursor) {
  return {cursor.UInt(0),
          std::string(cursor.Text(1)),
          static_cast<FactKind>(cursor.Int(2)),
          std::string(cursor.Text(3)),
          cursor.IsNull(4),
          cursor.U32(5)};
}

// The facts, each with its parts before it, since parts refer to their parent.
Result<std::vector<Doomed>> FindDoomed(Op& op, std::span<const FactSeq> facts) {
  std::vector<Doomed> doomed;
  for (const FactSeq seq : facts) {
    TRY_ASSIGN(Cursor cursor,
               op.db.Query("SELECT seq, id, kind, turn, superseded_by, words FROM facts WHERE seq=?1 OR part_of=?1"
                           " ORDER BY kind DESC, seq",
                           seq));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      doomed.push_back(ReadDoomed(cursor));
    }
  }
  return doomed;
}

// Turns that no live fact will have.
Status FindOrphanTurns(Op& op, const std::vector<Doomed>& doomed, Gone& gone) {
  std::map<std::string_view, int64_t> going;  // live facts of each turn that go
  for (const Doomed& fact : doomed)
    if (fact.kind != FactKind::kPart && !fact.turn.empty()) going[fact.turn] += fact.live ? 1 : 0;
  for (const auto& [turn, count] : going) {
    TRY_ASSIGN(const auto live, op.db.Value("SELECT count(*) FROM facts WHERE ns=? AND turn=? AND kind<>2"
                                            " AND superseded_by IS NULL",
                                            op.ns, turn));
    if (live != count) continue;
    TRY_ASSIGN(const auto seq, op.db.Value("SELECT seq FROM turns WHERE ns=? AND id=?", op.ns, turn));
    if (seq) gone.turns.insert(static_cast<TurnSeq>(*seq));
  }
  return {};
}

Status DeleteRow(Op& op, const Doomed& fact, HistoryEvent event) {
  if (fact.kind != FactKind::kParent) TRY(UnindexFact(op, fact.seq, fact.words));
  TRY(op.db.Run("DELETE FROM facts WHERE seq=?", fact.seq));
  op.change.removed.push_back(fact.seq);
  if (fact.kind == FactKind::kPart) return {};
  op.facts -= 1;
  TRY(op.db.Run("UPDATE history SET old_text=NULL WHERE ns=? AND fact=? AND old_text IS NOT NULL", op.ns,
                std::string_view(fact.id)));
  return AddHistory(op, fact.id, event, std::nullopt);
}

Result<std::vector<FactSeq>> Numbers(Cursor& cursor) {
  std::vector<FactSeq> numbers;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return numbers;
    numbers.push_back(cursor.UInt(0));
  }
}

Status KillAllRecords(Op& op) {
  std::vector<DeadRecord> dead;
  {
    TRY_ASSIGN(Cursor cursor, op.db.Query("SELECT record, fact, segment, offset, bytes FROM kv WHERE ns=?", op.ns));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      dead.push_back({0, cursor.UInt(0), op.ns, cursor.UInt(1), {cursor.UInt(2), cursor.UInt(3), cursor.UInt(4)}});
      op.kv_bytes -= static_cast<int64_t>(dead.back().location.bytes);
    }
  }
  for (const DeadRecord& each : dead) TRY(EraseLater(op.db, each, op.change.dead));
  return op.db.Run("DELETE FROM kv WHERE ns=?", op.ns);
}

}  // namespace

Status DeleteRows(Op& op, std::span<const FactSeq> facts, HistoryEvent event) {
  TRY_ASSIGN(const std::vector<Doomed> doomed, FindDoomed(op, facts));
  if (doomed.empty()) return {};
  Gone gone;
  for (const Doomed& fact : doomed) gone.facts.insert(fact.seq);
  TRY(FindOrphanTurns(op, doomed, gone));
  TRY(MakeStale(op, gone));
  for (const Doomed& fact : doomed) TRY(DeleteRow(op, fact, event));
  for (const TurnSeq turn : gone.turns) {
    TRY(op.db.Run("DELETE FROM turns WHERE seq=?", turn));
    op.turns -= 1;
    op.change.turns.push_back(turn);
  }
  op.content = true;
  return {};
}

Status DeleteParts(Op& op, FactSeq parent) {
  std::vector<Doomed> parts;
  {
    TRY_ASSIGN(Cursor cursor,
               op.db.Query("SELECT seq, id, kind, turn, superseded_by, words FROM facts WHERE part_of=?", parent));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      parts.push_back(ReadDoomed(cursor));
    }
  }
  for (const Doomed& part : parts) TRY(DeleteRow(op, part, HistoryEvent::kDelete));
  return {};
}

Status ClearNamespace(Op& op, uint64_t& facts) {
  TRY(KillAllRecords(op));
  {
    TRY_ASSIGN(Cursor cursor, op.db.Query("SELECT seq FROM facts WHERE ns=?", op.ns));
    TRY_ASSIGN(op.change.removed, Numbers(cursor));
    TRY_ASSIGN(Cursor turns, op.db.Query("SELECT seq FROM turns WHERE ns=?", op.ns));
    TRY_ASSIGN(op.change.turns, Numbers(turns));
  }
  TRY_ASSIGN(const auto count, op.db.Value("SELECT count(*) FROM facts WHERE ns=? AND kind<>2", op.ns));
  facts = static_cast<uint64_t>(count.value_or(0));
  // Children before what they refer to; whole sets, so that 10,000 facts take a fraction of a second.
  for (const std::string_view sql :
       {"DELETE FROM postings WHERE term IN (SELECT id FROM terms WHERE ns=?)", "DELETE FROM terms WHERE ns=?",
        "DELETE FROM fact_index WHERE seq IN (SELECT seq FROM facts WHERE ns=?)", "DELETE FROM queue WHERE ns=?",
        "DELETE FROM run_entries WHERE ns=?", "DELETE FROM runs WHERE ns=?", "DELETE FROM idempotency WHERE ns=?",
        "DELETE FROM facts WHERE ns=? AND kind=2", "DELETE FROM facts WHERE ns=?", "DELETE FROM turns WHERE ns=?"})
    TRY(op.db.Run(sql, op.ns));
  return op.db.Run(
      "UPDATE namespaces SET facts=0, searchable=0, words=0, turns=0, kv_bytes=0, generation=generation+1 WHERE id=?",
      op.ns);
}

Result<DeleteResult> SqliteCatalog::DeleteFacts(NamespaceId ns, std::span<const std::string> ids) {
  DeleteResult result;
  const auto body = [&](Op& op) -> Status {
    std::vector<FactSeq> facts;
    std::unordered_map<FactSeq, bool> taken;
    for (const std::string& id : ids) {
      TRY_ASSIGN(Cursor cursor,
                 op.db.Query("SELECT seq, kind FROM facts WHERE id=? AND ns=?", std::string_view(id), ns));
      TRY_ASSIGN(const bool found, cursor.Next());
      if (found && cursor.Int(1) == static_cast<int>(FactKind::kPart))
        return Fail(ErrorCode::kInvalidArgument, "a part of a long fact cannot be deleted alone: delete the fact");
      if (!found)
        result.missing.push_back(id);
      else if (taken.emplace(cursor.UInt(0), true).second)
        facts.push_back(cursor.UInt(0));
    }
    TRY(DeleteRows(op, facts, HistoryEvent::kDelete));
    result.deleted = facts.size();
    return {};
  };
  TRY_ASSIGN(result.change, ChangeNamespace(ns, body));
  has_residue_ = true;
  return result;
}

Result<DeleteResult> SqliteCatalog::DeleteAllFacts(NamespaceId ns) {
  DeleteResult result;
  const auto body = [&](Op& op) -> Status {
    // The history keeps the event of each and none of the words.
    TRY(op.db.Run("UPDATE history SET old_text=NULL WHERE ns=? AND old_text IS NOT NULL", ns));
    TRY(op.db.Run(
        "INSERT INTO history(ns, fact, n, event, at_us)"
        " SELECT ns, id, coalesce((SELECT max(n) FROM history h WHERE h.ns=f.ns AND h.fact=f.id), 0) + 1, ?, ?"
        " FROM facts f WHERE ns=? AND kind<>2",
        static_cast<int>(HistoryEvent::kDelete), op.now, ns));
    TRY(ClearNamespace(op, result.deleted));
    op.kv_bytes = 0;  // set, not counted
    return {};
  };
  TRY_ASSIGN(result.change, ChangeNamespace(ns, body));
  has_residue_ = true;
  return result;
}

Result<DeleteResult> SqliteCatalog::ExpireDue(size_t limit) {
  DeleteResult result;
  TRY_ASSIGN(Pool::Writer writer, Write());
  Connection& db = *writer;
  const Micros now = Now();
  std::map<NamespaceId, std::vector<FactSeq>> due;
  {
    TRY_ASSIGN(
        Cursor cursor,
        db.Query("SELECT ns, seq FROM facts WHERE expires_us<=? AND kind<>2 ORDER BY expires_us LIMIT ?", now, limit));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      due[cursor.Int(0)].push_back(cursor.UInt(1));
    }
  }
  for (const auto& [ns, facts] : due) {
    Op op{db, ns, now, std::move(result.change)};
    TRY(DeleteRows(op, facts, HistoryEvent::kExpire));
    TRY(op.Finish());
    result.change = std::move(op.change);
    result.deleted += facts.size();
  }
  TRY(writer.Commit());
  if (result.deleted > 0) has_residue_ = true;
  return result;
}

}  // namespace inferscale::sqlite
