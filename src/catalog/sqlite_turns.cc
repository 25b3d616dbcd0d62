// Turns of source conversations.
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_stale.h"

#define INFERSCALE_TURN_COLUMNS "seq, id, ordinal, speaker, text, date, version, sum"

namespace inferscale::sqlite {

namespace {

std::optional<int64_t> DayOrNull(const std::optional<Date>& date) {
  if (!date) return std::nullopt;
  return DayOf(*date);
}

Status CheckTurn(const NewTurn& turn) {
  if (turn.id.empty() || turn.id.size() > limits::kIdBytes)
    return Fail(ErrorCode::kInvalidArgument, "a turn's id has 1 to " + std::to_string(limits::kIdBytes) + " bytes");
  if (turn.text.size() > limits::kFactBytes || turn.speaker.size() > limits::kIdBytes)
    return Fail(ErrorCode::kTooLarge, "a turn's text has more than " + std::to_string(limits::kFactBytes) +
                                          " bytes, or its speaker more than " + std::to_string(limits::kIdBytes));
  if (turn.text.empty()) return Fail(ErrorCode::kInvalidArgument, "a turn without text");
  if (turn.ordinal && *turn.ordinal > INT64_MAX)
    return Fail(ErrorCode::kInvalidArgument, "a turn's ordinal is too large");
  return {};
}

Result<std::optional<TurnRow>> FindStored(Connection& db, NamespaceId ns, std::string_view id) {
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_TURN_COLUMNS " FROM turns WHERE ns=? AND id=?", ns, id));
  TRY_ASSIGN(const bool found, cursor.Next());
  TurnRow turn;
  if (!found) return std::optional<TurnRow>();
  if (!ReadTurn(cursor, ns, turn)) turn.text.clear();  // damaged: differs from all that may be given, and is replaced
  return std::optional(std::move(turn));
}

Status InsertTurn(Op& op, TurnRow turn, std::optional<uint64_t> ordinal, PutTurnsResult& result) {
  if (ordinal) {
    turn.ordinal = *ordinal;
  } else {
    TRY_ASSIGN(const auto last, op.db.Value("SELECT max(ordinal) FROM turns WHERE ns=?", op.ns));
    turn.ordinal = last ? static_cast<uint64_t>(*last) + 1 : 0;
  }
  TRY(op.db.Run("INSERT INTO turns(ns, id, ordinal, speaker, text, date, version, sum) VALUES(?,?,?,?,?,?,?,?)", op.ns,
                std::string_view(turn.id), turn.ordinal, std::string_view(turn.speaker), std::string_view(turn.text),
                DayOrNull(turn.date), turn.version, SumOf(op.ns, turn)));
  result.turns.push_back(static_cast<TurnSeq>(op.db.last_insert_id()));
  op.turns += 1;
  ++result.added;
  return {};
}

Status PutTurn(Op& op, const NewTurn& given, PutTurnsResult& result, Gone& gone) {
  TRY(CheckTurn(given));
  TRY_ASSIGN(std::optional<TurnRow> stored, FindStored(op.db, op.ns, given.id));
  TurnRow turn{0, given.id, 0, given.speaker, given.text, given.date, 1};
  if (!stored) return InsertTurn(op, std::move(turn), given.ordinal, result);
  turn.seq = stored->seq;
  turn.ordinal = given.ordinal.value_or(stored->ordinal);
  const bool same = stored->speaker == turn.speaker && stored->text == turn.text && stored->date == turn.date;
  turn.version = stored->version + (same ? 0 : 1);
  result.turns.push_back(turn.seq);
  if (same && turn.ordinal == stored->ordinal) return {};
  ++result.changed;
  // Another place alone makes nothing stale: a record names the texts that it saw, in order.
  if (!same) gone.turns.insert(turn.seq);
  return op.db.Run("UPDATE turns SET ordinal=?, speaker=?, text=?, date=?, version=?, sum=? WHERE seq=?", turn.ordinal,
                   std::string_view(turn.speaker), std::string_view(turn.text), DayOrNull(turn.date), turn.version,
                   SumOf(op.ns, turn), turn.seq);
}

}  // namespace

bool ReadTurn(const Cursor& cursor, NamespaceId ns, TurnRow& turn) {
  turn.seq = cursor.UInt(0);
  turn.id = cursor.Text(1);
  turn.ordinal = cursor.UInt(2);
  turn.speaker = cursor.Text(3);
  turn.text = cursor.Text(4);
  const auto date = cursor.OptInt(5);
  if (!IsDay(date)) return false;
  turn.date = date ? std::optional(DateOf(*date)) : std::nullopt;
  turn.version = cursor.U32(6);
  return SumOf(ns, turn) == cursor.Int(7);
}

Result<PutTurnsResult> SqliteCatalog::PutTurns(NamespaceId ns, std::span<const NewTurn> turns) {
  if (turns.size() > limits::kFactsPerBatch)
    return Fail(ErrorCode::kTooLarge, "more than " + std::to_string(limits::kFactsPerBatch) + " turns at once");
  PutTurnsResult result;
  const auto body = [&](Op& op) -> Status {
    Gone gone;
    for (const NewTurn& turn : turns) TRY(PutTurn(op, turn, result, gone));
    op.content = result.added + result.changed > 0;
    return gone.turns.empty() ? Status() : MakeStale(op, gone);
  };
  TRY_ASSIGN(result.change, ChangeNamespace(ns, body));
  if (result.changed > 0) has_residue_ = true;
  return result;
}

Result<std::vector<TurnRow>> SqliteCatalog::GetTurns(NamespaceId ns, uint64_t first, size_t count) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  const uint64_t from = std::min<uint64_t>(first, INT64_MAX);
  const uint64_t to = from + std::min<uint64_t>(count, INT64_MAX - from);
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_TURN_COLUMNS
                                            " FROM turns WHERE ns=? AND ordinal>=? AND ordinal<? ORDER BY ordinal, seq",
                                            ns, from, to));
  std::vector<TurnRow> turns;
  TurnRow turn;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return turns;
    if (ReadTurn(cursor, ns, turn)) turns.push_back(turn);
  }
}

Result<TurnRow> SqliteCatalog::FindTurn(NamespaceId ns, std::string_view id) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor,
             (*reader).Query("SELECT " INFERSCALE_TURN_COLUMNS " FROM turns WHERE ns=? AND id=?", ns, id));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return Fail(ErrorCode::kNotFound, "there is no such turn in this namespace");
  TurnRow turn;
  if (!ReadTurn(cursor, ns, turn)) return Fail(ErrorCode::kCorrupt, "catalog: a turn is damaged; give it again");
  return turn;
}

}  // namespace inferscale::sqlite
