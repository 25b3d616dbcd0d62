#include "catalog/sqlite_rows.h"

#include "base/limits.h"
#include "catalog/sqlite_codec.h"

namespace inferscale::sqlite {

namespace {

std::optional<std::string_view> OrNull(std::string_view text) {
  if (text.empty()) return std::nullopt;
  return text;
}

std::optional<int64_t> DayOrNull(const std::optional<Date>& date) {
  if (!date) return std::nullopt;
  return DayOf(*date);
}

// Calls use(args…) with the columns after seq, in order.
template <class Use>
Status WithColumns(const FactRow& row, const Use& use) {
  const std::optional<FactSeq> part_of = row.part_of != 0 ? std::optional(row.part_of) : std::nullopt;
  const std::string hash = HashBlob(ContentHash(row.text, row.date));
  return use(row.name_space, std::string_view(row.id), row.version, static_cast<int>(row.kind), part_of,
             std::string_view(row.text), DayOrNull(row.date), DayOf(row.order_day), row.created_us, row.updated_us,
             row.expires_us, OrNull(row.metadata), OrNull(row.scope.user_id), OrNull(row.scope.agent_id),
             OrNull(row.scope.run_id), OrNull(row.scope.app_id), OrNull(row.turn), OrNull(row.supersede_key),
             OrNull(row.superseded_by), row.words, SumOf(row), Blob{hash});
}

}  // namespace

bool ReadFact(const Cursor& cursor, FactRow& row) {
  int i = 0;
  row.seq = cursor.UInt(i++);
  row.name_space = cursor.Int(i++);
  row.id = cursor.Text(i++);
  row.version = cursor.U32(i++);
  row.kind = static_cast<FactKind>(cursor.Int(i++));
  row.part_of = cursor.UInt(i++);
  row.text = cursor.Text(i++);
  const std::optional<int64_t> date = cursor.OptInt(i++);
  const int64_t order_day = cursor.Int(i++);
  row.created_us = cursor.Int(i++);
  row.updated_us = cursor.Int(i++);
  row.expires_us = cursor.OptInt(i++);
  row.metadata = cursor.Text(i++);
  for (std::string* id : {&row.scope.user_id, &row.scope.agent_id, &row.scope.run_id, &row.scope.app_id})
    *id = cursor.Text(i++);
  row.turn = cursor.Text(i++);
  row.supersede_key = cursor.Text(i++);
  row.superseded_by = cursor.Text(i++);
  row.words = cursor.U32(i++);
  if (!IsDay(date) || !IsDay(order_day)) return false;
  row.date = date ? std::optional(DateOf(*date)) : std::nullopt;
  row.order_day = DateOf(order_day);
  return SumOf(row) == cursor.Int(i);
}

Result<std::vector<FactRow>> ReadFacts(Cursor& cursor, NamespaceId ns, size_t limit) {
  std::vector<FactRow> rows;
  FactRow row;
  while (rows.size() < limit) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) break;
    if (ReadFact(cursor, row) && (ns == 0 || row.name_space == ns)) rows.push_back(std::move(row));
  }
  return rows;
}

std::string QuotedId(std::string_view id) {
  std::string quoted = "\"";
  for (const char c : id.substr(0, 64)) quoted += static_cast<unsigned char>(c) >= 0x20 && c != '"' ? c : '?';
  return quoted + '"';
}

Error NoSuchFact(std::string_view id) {
  return {ErrorCode::kNotFound, "there is no fact " + QuotedId(id) + " in this namespace"};
}

Result<FactRow> FindFact(Connection& db, NamespaceId ns, std::string_view id) {
  TRY_ASSIGN(Cursor cursor,
             db.Query("SELECT " INFERSCALE_FACT_COLUMNS " FROM facts f WHERE f.id=? AND f.ns=?", id, ns));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return tl::unexpected<Error>(NoSuchFact(id));
  FactRow row;
  if (!ReadFact(cursor, row) || row.id != id || row.name_space != ns)
    return Fail(ErrorCode::kCorrupt, "catalog: fact " + QuotedId(id) +
                                         " is damaged; forget it, or restore a copy (`inferscale fsck` lists all)");
  return row;
}

Status InsertFact(Connection& db, FactRow& row) {
  TRY(WithColumns(row, [&](const auto&... columns) {
    return db.Run(
        "INSERT INTO facts(ns, id, version, kind, part_of, text, date, order_day, created_us, updated_us, expires_us,"
        " metadata, user_id, agent_id, run_id, app_id, turn, supersede_key, superseded_by, words, sum, hash)"
        " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
        columns...);
  }));
  row.seq = static_cast<FactSeq>(db.last_insert_id());
  return {};
}

Status StoreFact(Connection& db, const FactRow& row) {
  return WithColumns(row, [&](const auto&... columns) {
    return db.Run(
        "UPDATE facts SET ns=?, id=?, version=?, kind=?, part_of=?, text=?, date=?, order_day=?, created_us=?,"
        " updated_us=?, expires_us=?, metadata=?, user_id=?, agent_id=?, run_id=?, app_id=?, turn=?, supersede_key=?,"
        " superseded_by=?, words=?, sum=?, hash=? WHERE seq=?",
        columns..., row.seq);
  });
}

Result<std::vector<FactRow>> PartsOf(Connection& db, NamespaceId ns, FactSeq parent) {
  TRY_ASSIGN(Cursor cursor,
             db.Query("SELECT " INFERSCALE_FACT_COLUMNS " FROM facts f WHERE f.part_of=? AND f.ns=? ORDER BY f.seq",
                      parent, ns));
  return ReadFacts(cursor, ns);
}

Result<std::vector<FactSeq>> WithParts(Connection& db, FactSeq fact) {
  std::vector<FactSeq> seqs = {fact};
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT seq FROM facts WHERE part_of=? ORDER BY seq", fact));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return seqs;
    seqs.push_back(cursor.UInt(0));
  }
}

Status AddHistory(Op& op, std::string_view fact, HistoryEvent event, std::optional<std::string_view> old_text) {
  TRY_ASSIGN(const auto last, op.db.Value("SELECT max(n) FROM history WHERE ns=? AND fact=?", op.ns, fact));
  const int64_t n = last.value_or(0) + 1;
  const std::string sealed = old_text ? SealText(HistoryKey(op.ns, fact, n), *old_text) : std::string();
  TRY(op.db.Run("INSERT INTO history(ns, fact, n, event, at_us, old_text) VALUES(?,?,?,?,?,?)", op.ns, fact, n,
                static_cast<int>(event), op.now, old_text ? std::optional(Blob{sealed}) : std::nullopt));
  const auto limit = static_cast<int64_t>(limits::kHistoryPerFact);
  if (n <= limit) return {};
  return op.db.Run("DELETE FROM history WHERE ns=? AND fact=? AND n<=? AND event=1", op.ns, fact, n - limit);
}

}  // namespace inferscale::sqlite
