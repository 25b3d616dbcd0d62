#include "catalog/sqlite_schema.h"

#include <string>

#include "catalog/page_check_vfs.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_wipe.h"

namespace inferscale::sqlite {

namespace {

// "ISCT", in the file's header.
constexpr int64_t kApplicationId = 0x49534354;

// `settings` keeps its form in all versions: a program that is too old reads from it who wrote the file.
constexpr char kVersion1[] = R"sql(
CREATE TABLE settings(key TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE namespaces(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, sum INTEGER NOT NULL, created_us INTEGER NOT NULL,
  last_active_us INTEGER NOT NULL, facts INTEGER NOT NULL DEFAULT 0, searchable INTEGER NOT NULL DEFAULT 0,
  words INTEGER NOT NULL DEFAULT 0, turns INTEGER NOT NULL DEFAULT 0, generation INTEGER NOT NULL DEFAULT 0,
  kv_bytes INTEGER NOT NULL DEFAULT 0, next_run INTEGER NOT NULL DEFAULT 1) STRICT;

CREATE TABLE facts(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL REFERENCES namespaces(id), id TEXT NOT NULL,
  version INTEGER NOT NULL, kind INTEGER NOT NULL, part_of INTEGER REFERENCES facts(seq), text TEXT NOT NULL,
  date INTEGER, order_day INTEGER NOT NULL, created_us INTEGER NOT NULL, updated_us INTEGER NOT NULL,
  expires_us INTEGER, metadata TEXT, user_id TEXT, agent_id TEXT, run_id TEXT, app_id TEXT, turn TEXT,
  supersede_key TEXT, superseded_by TEXT, words INTEGER NOT NULL, sum INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX facts_by_id ON facts(id, ns);
CREATE INDEX facts_by_seq ON facts(ns);
CREATE INDEX facts_by_order ON facts(ns, order_day, coalesce(part_of, seq));
CREATE INDEX facts_by_hash ON facts(ns, hash) WHERE kind <> 2 AND superseded_by IS NULL;
CREATE INDEX facts_by_parent ON facts(part_of) WHERE part_of IS NOT NULL;
CREATE INDEX facts_by_expiry ON facts(expires_us) WHERE expires_us IS NOT NULL;
CREATE INDEX facts_by_turn ON facts(ns, turn) WHERE turn IS NOT NULL;
CREATE INDEX facts_by_key ON facts(ns, supersede_key) WHERE supersede_key IS NOT NULL;

CREATE TABLE embedders(
  id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, key BLOB NOT NULL, dims INTEGER NOT NULL) STRICT;
CREATE TABLE fact_index(
  seq INTEGER PRIMARY KEY REFERENCES facts(seq) ON DELETE CASCADE, embedder INTEGER NOT NULL, vector BLOB NOT NULL,
  terms BLOB NOT NULL) STRICT;
CREATE TABLE terms(
  id INTEGER PRIMARY KEY, ns INTEGER NOT NULL REFERENCES namespaces(id), term TEXT NOT NULL, sum INTEGER NOT NULL,
  facts INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX terms_by_term ON terms(ns, term);
CREATE TABLE postings(
  term INTEGER NOT NULL, seq INTEGER NOT NULL, count INTEGER NOT NULL, PRIMARY KEY(term, seq)) STRICT, WITHOUT ROWID;

CREATE TABLE turns(
  seq INTEGER PRIMARY KEY AUTOINCREMENT, ns INTEGER NOT NULL REFERENCES namespaces(id), id TEXT NOT NULL,
  ordinal INTEGER NOT NULL, speaker TEXT NOT NULL, text TEXT NOT NULL, date INTEGER, version INTEGER NOT NULL,
  sum INTEGER NOT NULL) STRICT;
CREATE UNIQUE INDEX turns_by_id ON turns(ns, id);
CREATE INDEX turns_by_ordinal ON turns(ns, ordinal);

CREATE TABLE history(
  ns INTEGER NOT NULL REFERENCES namespaces(id), fact TEXT NOT NULL, n INTEGER NOT NULL, event INTEGER NOT NULL,
  at_us INTEGER NOT NULL, old_text BLOB, PRIMARY KEY(ns, fact, n)) STRICT, WITHOUT ROWID;

CREATE TABLE runs(
  ns INTEGER NOT NULL REFERENCES namespaces(id), number INTEGER NOT NULL, closed INTEGER NOT NULL,
  side INTEGER NOT NULL, anchor_chosen INTEGER NOT NULL, stale_count INTEGER NOT NULL, digest BLOB NOT NULL,
  PRIMARY KEY(ns, number)) STRICT, WITHOUT ROWID;
CREATE TABLE run_entries(
  ns INTEGER NOT NULL, run INTEGER NOT NULL, role INTEGER NOT NULL, place INTEGER NOT NULL,
  fact INTEGER NOT NULL REFERENCES facts(seq) ON DELETE CASCADE, version INTEGER NOT NULL, digest BLOB NOT NULL,
  tokens INTEGER NOT NULL, PRIMARY KEY(ns, run, role, place),
  FOREIGN KEY(ns, run) REFERENCES runs(ns, number) ON DELETE CASCADE) STRICT, WITHOUT ROWID;
CREATE INDEX run_entries_by_fact ON run_entries(fact, role);

CREATE TABLE kv(
  record INTEGER PRIMARY KEY, fact INTEGER NOT NULL REFERENCES facts(seq),
  ns INTEGER NOT NULL REFERENCES namespaces(id), version INTEGER NOT NULL, model BLOB NOT NULL,
  encoding INTEGER NOT NULL, calibration BLOB NOT NULL, window BLOB NOT NULL, tokens INTEGER NOT NULL,
  segment INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL, saw BLOB NOT NULL) STRICT;
CREATE UNIQUE INDEX kv_by_fact ON kv(fact, model);
CREATE INDEX kv_by_ns ON kv(ns);
CREATE TABLE erase(
  id INTEGER PRIMARY KEY AUTOINCREMENT, record INTEGER NOT NULL, ns INTEGER NOT NULL, fact INTEGER NOT NULL,
  segment INTEGER NOT NULL, offset INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT;

CREATE TABLE queue(
  fact INTEGER PRIMARY KEY REFERENCES facts(seq) ON DELETE CASCADE, ns INTEGER NOT NULL, order_day INTEGER NOT NULL,
  arrival INTEGER NOT NULL, added_us INTEGER NOT NULL, due_us INTEGER NOT NULL, priority INTEGER NOT NULL,
  attempts INTEGER NOT NULL, last_error TEXT NOT NULL) STRICT;
CREATE INDEX queue_by_priority ON queue(priority DESC, ns, order_day, arrival, fact);
CREATE INDEX queue_by_ns ON queue(ns);

CREATE TABLE idempotency(
  ns INTEGER NOT NULL REFERENCES namespaces(id), key TEXT NOT NULL, request BLOB NOT NULL, at_us INTEGER NOT NULL,
  result BLOB NOT NULL, PRIMARY KEY(ns, key)) STRICT, WITHOUT ROWID;
CREATE INDEX idempotency_by_time ON idempotency(at_us);
)sql";

// Keys of idempotency are the application's words: their digests are enough. Beside it, pages got checksums, which is
// done before this step.
constexpr char kVersion2[] = R"sql(
CREATE TEMP TABLE old AS SELECT ns, key_digest(ns, key) AS key, request, at_us, result FROM main.idempotency;
DROP TABLE main.idempotency;
CREATE TABLE main.idempotency(
  ns INTEGER NOT NULL REFERENCES namespaces(id), key BLOB NOT NULL, request BLOB NOT NULL, at_us INTEGER NOT NULL,
  result BLOB NOT NULL, PRIMARY KEY(ns, key)) STRICT, WITHOUT ROWID;
CREATE INDEX main.idempotency_by_time ON idempotency(at_us);
INSERT INTO main.idempotency(ns, key, request, at_us, result) SELECT ns, key, request, at_us, result FROM temp.old;
DROP TABLE temp.old;
)sql";
constexpr size_t kSumsSince = 2;

constexpr const char* kMigrations[] = {kVersion1, kVersion2};

// key_digest(ns, key), for kVersion2.
void SqlKeyDigest(sqlite3_context* context, int, sqlite3_value** values) {
  const auto* text = static_cast<const char*>(sqlite3_value_blob(values[1]));
  const auto size = static_cast<size_t>(sqlite3_value_bytes(values[1]));
  const std::string digest =
      KeyDigest(sqlite3_value_int64(values[0]), std::string_view(text, text == nullptr ? 0 : size));
  sqlite3_result_blob64(context, digest.data(), digest.size(), SQLITE_TRANSIENT);
}

Result<std::string> Writer(Connection& connection) {
  TRY_ASSIGN(Cursor cursor, connection.Query("SELECT value FROM settings WHERE key='made_by'"));
  TRY_ASSIGN(const bool row, cursor.Next());
  return row ? std::string(cursor.Bytes(0)) : std::string("another program");
}

// Of all definitions: a flipped letter in one is not seen by SQLite as long as it makes sense.
Result<std::string> SumOfSchema(Connection& connection) {
  TRY_ASSIGN(Cursor cursor,
             connection.Query("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name"));
  Packer packer;
  for (;;) {
    TRY_ASSIGN(const bool row, cursor.Next());
    if (!row) return HashBlob(HashBytes(packer.bytes()));
    for (int column = 0; column < 4; ++column) packer.Str(cursor.Text(column));
  }
}

constexpr const char* kDamagedHeader = "catalog: the header of its file is damaged; restore a copy";

Status Set(Connection& connection, std::string_view key, std::string_view value) {
  return connection.Run("INSERT INTO settings(key, value) VALUES(?1, ?2) ON CONFLICT(key) DO UPDATE SET value=?2", key,
                        Blob{value});
}

Status CheckSchema(Connection& connection) {
  TRY_ASSIGN(const std::string sum, SumOfSchema(connection));
  TRY_ASSIGN(Cursor cursor, connection.Query("SELECT value FROM settings WHERE key='schema_sum'"));
  TRY_ASSIGN(const bool row, cursor.Next());
  if (row && cursor.Bytes(0) == sum) return {};
  return Fail(ErrorCode::kCorrupt, "catalog: the definitions of its tables are damaged; restore a copy");
}

Status Step(Connection& connection, const char* sql, size_t to, std::string_view program) {
  TRY_ASSIGN(Transaction transaction, Transaction::Begin(connection, true));
  TRY(connection.Script(sql));
  TRY_ASSIGN(const std::string sum, SumOfSchema(connection));
  TRY(Set(connection, "schema_sum", sum));
  TRY(Set(connection, "made_by", program));
  TRY(connection.Script(
      ("PRAGMA application_id=" + std::to_string(kApplicationId) + "; PRAGMA user_version=" + std::to_string(to))
          .c_str()));
  return transaction.Commit();
}

// A file of before kSumsSince is written anew with room for checksums. It is one transaction in the log: after a kill
// anywhere the file is the old one or the new one. Takes memory for all of it.
Status MakePageSums(Connection& connection, size_t version) {
  TRY_ASSIGN(const bool has, HasPageSums(connection.db()));
  if (has) return {};
  if (version >= kSumsSince) return Fail(ErrorCode::kCorrupt, kDamagedHeader);
  connection.MakePrivate();
  TRY(connection.Script("VACUUM"));
  return connection.EmptyLog();  // so that the file's header says so before the next step says what it must say
}

}  // namespace

std::span<const char* const> Migrations() { return kMigrations; }

Status Migrate(Connection& connection, std::span<const char* const> steps, std::string_view program) {
  TRY_ASSIGN(const auto application, connection.Value("PRAGMA application_id"));
  TRY_ASSIGN(const auto version, connection.Value("PRAGMA user_version"));
  TRY_ASSIGN(const auto tables, connection.Value("SELECT count(*) FROM sqlite_schema"));
  const bool is_new = tables == 0 && version == 0;
  if (!is_new && application != kApplicationId)
    return Fail(ErrorCode::kCorrupt, "catalog: the file is not a catalog of InferScale; choose another folder");
  constexpr int64_t kNoSchemaYet = 1000;  // from here on it is a number that no program wrote
  if (version.value_or(0) < 0 || version.value_or(0) >= kNoSchemaYet) return Fail(ErrorCode::kCorrupt, kDamagedHeader);
  const auto have = static_cast<size_t>(version.value_or(0));
  if (have > steps.size()) {
    TRY_ASSIGN(const std::string writer, Writer(connection));
    return Fail(ErrorCode::kVersionUnsupported, "catalog: the file has schema " + std::to_string(have) +
                                                    ", written by " + writer + "; this program knows schemas up to " +
                                                    std::to_string(steps.size()) + ": use that version or newer");
  }
  if (have > 0) {
    TRY(CheckSchema(connection));
    TRY(MakePageSums(connection, have));
  }
  if (have == steps.size()) return {};
  (void)sqlite3_create_function_v2(connection.db(), "key_digest", 2, SQLITE_UTF8 | SQLITE_DIRECTONLY, nullptr,
                                   SqlKeyDigest, nullptr, nullptr, nullptr);
  for (size_t i = have; i < steps.size(); ++i) TRY(Step(connection, steps[i], i + 1, program));
  TRY(connection.EmptyLog());
  return have > 0 ? WipeUnusedSpace(connection) : Status();  // what a step dropped is in no file any more
}

}  // namespace inferscale::sqlite
