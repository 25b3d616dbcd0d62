// KV rows: which records are usable.
#include <map>

#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_kv_rows.h"
#include "catalog/sqlite_stale.h"

namespace inferscale::sqlite {

namespace {

// Record ids are reserved in the file in blocks: one synced write for a thousand; what a crash leaves unused is
// skipped.
constexpr size_t kReserveBlock = 1024;

// Puts one record in, or its bytes on the erase list.
class RecordPutter {
 public:
  RecordPutter(Op& op, PutRecordsResult& result) : op_(op), result_(result) {}

  Status Put(const KvRow& row) {
    TRY_ASSIGN(const bool fresh, IsFresh(row));
    result_.stored.push_back(fresh);
    if (!fresh) return EraseLater(op_.db, {0, row.record, op_.ns, row.fact, row.location}, result_.dead);
    TRY_ASSIGN(const bool there, DropOlder(row));
    if (there) return {};
    TRY(InsertRecord(op_.db, row));
    op_.kv_bytes += static_cast<int64_t>(row.location.bytes);
    return op_.db.Run("DELETE FROM queue WHERE fact=?", row.fact);
  }

 private:
  // The version of a text that windows may hold now; 0: none.
  Result<uint32_t> VersionInWindows(SeenKind kind, uint64_t seq) {
    const auto key = std::pair(kind, seq);
    if (const auto known = versions_.find(key); known != versions_.end()) return known->second;
    const std::string_view sql = kind == SeenKind::kFact ? "SELECT version FROM facts WHERE seq=? AND ns=? AND kind<>1"
                                                           " AND superseded_by IS NULL AND expires_us IS NULL"
                                                         : "SELECT version FROM turns WHERE seq=? AND ns=?";
    TRY_ASSIGN(const auto version, op_.db.Value(sql, seq, op_.ns));
    return versions_[key] = static_cast<uint32_t>(version.value_or(0));
  }

  Result<bool> IsFresh(const KvRow& row) {
    TRY_ASSIGN(const auto own, op_.db.Value("SELECT version FROM facts WHERE seq=? AND ns=? AND kind<>1"
                                            " AND superseded_by IS NULL AND (expires_us IS NULL OR expires_us>?)",
                                            row.fact, op_.ns, op_.now));
    if (!own || *own != row.content_version) return false;
    for (const Seen& seen : row.saw) {
      TRY_ASSIGN(const uint32_t version, VersionInWindows(seen.kind, seen.seq));
      if (version == 0 || version != seen.version) return false;
    }
    return true;
  }

  // true: this very record is there already, as when a call is repeated.
  Result<bool> DropOlder(const KvRow& row) {
    const std::string model = HashBlob(row.model_key);
    TRY_ASSIGN(const auto older, op_.db.Value("SELECT record FROM kv WHERE fact=? AND model=?", row.fact, Blob{model}));
    if (!older) return false;
    if (static_cast<RecordSeq>(*older) == row.record) return true;
    TRY(DropRecord(op_, static_cast<RecordSeq>(*older), false));
    result_.dead.insert(result_.dead.end(), op_.change.dead.begin(), op_.change.dead.end());
    op_.change.dead.clear();
    return false;
  }

  Op& op_;
  PutRecordsResult& result_;
  std::map<std::pair<SeenKind, uint64_t>, uint32_t> versions_;
};

Status CheckRow(const KvRow& row) {
  if (row.record == 0 || row.record > INT64_MAX || row.location.bytes == 0 || row.n_tokens == 0)
    return Fail(ErrorCode::kInvalidArgument, "a KV row without record id, bytes or tokens");
  if (row.saw.size() > limits::kSeenPerRecord) return Fail(ErrorCode::kTooLarge, "a record saw too many texts");
  return {};
}

// A namespace that was deleted meanwhile: nothing of it is usable.
Status EraseOrphan(Connection& db, const KvRow& row, PutRecordsResult& result) {
  result.stored.push_back(false);
  return EraseLater(db, {0, row.record, row.name_space, row.fact, row.location}, result.dead);
}

}  // namespace

Result<RecordSeq> SqliteCatalog::ReserveRecords(size_t count) {
  if (count > limits::kFactsPerBatch) return Fail(ErrorCode::kTooLarge, "too many record ids at once");
  const std::lock_guard reserving(reserve_mutex_);
  if (last_record_ - next_record_ < count) {
    TRY_ASSIGN(Pool::Writer writer, Write());
    Connection& db = *writer;
    // Rows that are there count too: a damaged setting must not give their ids again.
    TRY_ASSIGN(const auto stored, db.Value("SELECT max(coalesce((SELECT CAST(CAST(value AS TEXT) AS INTEGER)"
                                           " FROM settings WHERE key='next_record'), 1),"
                                           " coalesce((SELECT max(record) FROM kv), 0) + 1,"
                                           " coalesce((SELECT max(record) FROM erase), 0) + 1)"));
    const auto first = static_cast<RecordSeq>(std::max<int64_t>(stored.value_or(1), 1));
    const RecordSeq last = first + std::max(count, kReserveBlock);
    const std::string text = std::to_string(last);
    TRY(db.Run("INSERT INTO settings(key, value) VALUES('next_record', ?1) ON CONFLICT(key) DO UPDATE SET value=?1",
               Blob{text}));
    TRY(writer.Commit());
    next_record_ = first;
    last_record_ = last;
  }
  const RecordSeq first = next_record_;
  next_record_ += count;
  return first;
}

Result<PutRecordsResult> SqliteCatalog::PutRecords(std::span<const KvRow> rows) {
  if (rows.size() > limits::kFactsPerBatch) return Fail(ErrorCode::kTooLarge, "too many KV rows at once");
  for (const KvRow& row : rows) TRY(CheckRow(row));
  PutRecordsResult result;
  TRY_ASSIGN(Pool::Writer writer, Write());
  for (size_t i = 0; i < rows.size();) {  // neighbours of one namespace share an Op
    Op op{*writer, rows[i].name_space, Now()};
    RecordPutter putter(op, result);
    const bool known = op.Check().has_value();
    for (const NamespaceId ns = op.ns; i < rows.size() && rows[i].name_space == ns; ++i)
      TRY(known ? putter.Put(rows[i]) : EraseOrphan(op.db, rows[i], result));
    TRY(op.Finish());
  }
  TRY(writer.Commit());
  return result;
}

Result<std::vector<KvRow>> SqliteCatalog::UsableRecords(NamespaceId ns, const ModelKey& model_key,
                                                        std::span<const FactSeq> facts) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  Connection& db = *reader;
  const std::string model = HashBlob(model_key);
  std::vector<KvRow> rows;
  if (facts.empty()) {
    TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv WHERE ns=? AND model=? ORDER BY fact",
                                       ns, Blob{model}));
    TRY(ReadRecords(cursor, [&](const KvRow& row) { return rows.push_back(row), true; }));
    return rows;
  }
  for (const FactSeq fact : facts) {
    TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_KV_COLUMNS " FROM kv WHERE fact=? AND model=? AND ns=?",
                                       fact, Blob{model}, ns));
    TRY(ReadRecords(cursor, [&](const KvRow& row) { return rows.push_back(row), true; }));
  }
  return rows;
}

Result<uint64_t> SqliteCatalog::CountWithoutKv(std::optional<NamespaceId> ns, const ModelKey& model_key) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  const std::string model = HashBlob(model_key);
  TRY_ASSIGN(const auto count,
             (*reader).Value("SELECT count(*) FROM facts WHERE (?1 OR ns=?2) AND kind<>1 AND superseded_by IS NULL"
                             " AND coalesce(expires_us>?3, TRUE)"
                             " AND NOT EXISTS(SELECT 1 FROM queue WHERE queue.fact=facts.seq)"
                             " AND NOT EXISTS(SELECT 1 FROM kv WHERE kv.fact=facts.seq AND kv.model=?4)",
                             int64_t{!ns}, ns.value_or(0), Now(), Blob{model}));
  return static_cast<uint64_t>(count.value_or(0));
}

}  // namespace inferscale::sqlite
