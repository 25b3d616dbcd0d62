#include "catalog/sqlite_catalog.h"

#include <chrono>

#include "base/limits.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_log.h"
#include "catalog/sqlite_schema.h"

namespace inferscale {

namespace {

namespace fs = std::filesystem;

Status IsLost(const fs::path& path, const char* how) {
  return Fail(ErrorCode::kCorrupt, "catalog: " + path.string() + " " + how +
                                       ", though its folder was in use: what it held is lost; restore a copy, or "
                                       "remove the folder to begin anew");
}

// SQLite takes an empty file for a new database, and deletes its log. A new catalog is in its file before anything else
// is made.
Status CheckIsThere(const fs::path& path, bool was_used) {
  std::error_code error;
  const uintmax_t size = fs::file_size(path, error);
  if (!was_used || (!error && size > 0)) return {};
  return IsLost(path, error ? "is missing" : "is empty");
}

Status CheckHasTables(sqlite::Connection& db, const fs::path& path) {
  TRY_ASSIGN(const auto tables, db.Value("SELECT count(*) FROM sqlite_schema"));
  return tables.value_or(0) > 0 ? Status() : IsLost(path, "has no tables");
}

// SQLite removes the log's index before the log when it closes the last connection, so that the index alone means that
// somebody took the log of a crash away. A power cut right after a clean end can leave the same: then this is a false
// alarm.
Result<bool> LogIsDamagedOrGone(const fs::path& path) {
  const fs::path log = path.string() + "-wal";
  std::error_code error;
  if (!fs::exists(log, error) && fs::exists(path.string() + "-shm", error)) return true;
  return sqlite::LogIsDamaged(log);
}

Status NoteLogDamage(sqlite::Connection& db, Micros now) {
  const std::string text = std::to_string(now);
  return db.Run("INSERT OR REPLACE INTO settings(key, value) VALUES('log_damage', ?)", sqlite::Blob{text});
}

}  // namespace

Result<std::unique_ptr<Catalog>> OpenSqliteCatalog(const std::filesystem::path& folder, SqliteOptions options,
                                                   SqliteOpenReport* report) {
  if (options.readers < 0) return Fail(ErrorCode::kInvalidArgument, "the number of readers is negative");
  if (options.readers == 0) options.readers = limits::kCatalogReaders;
  if (!options.clock)
    options.clock = [] {
      const auto now = std::chrono::system_clock::now().time_since_epoch();
      return Micros{std::chrono::duration_cast<std::chrono::microseconds>(now).count()};
    };
  const fs::path path = folder / "catalog.db";
  std::error_code none;
  const uintmax_t log_bytes = fs::file_size(folder / "catalog.db-wal", none);
  TRY(CheckIsThere(path, options.was_used || (!none && log_bytes > 0)));
  TRY_ASSIGN(const bool lost, LogIsDamagedOrGone(path));
  if (report != nullptr) *report = {.changes_lost = lost, .unclean = !none && log_bytes > 0};
  const sqlite::ConnectionOptions connection = {options.vfs, false, options.secure_delete, options.check_pages};
  const auto prepare = [&](sqlite::Connection& db) {
    Status status = options.was_used ? CheckHasTables(db, path) : Status();
    if (status) status = sqlite::Migrate(db, sqlite::Migrations(), options.program);
    if (status && lost) status = NoteLogDamage(db, options.clock());
    if (!status) db.KeepLog();
    return status;
  };
  TRY_ASSIGN(std::unique_ptr<sqlite::Pool> pool, sqlite::Pool::Open(path, connection, options.readers, prepare));
  return std::unique_ptr<Catalog>(std::make_unique<sqlite::SqliteCatalog>(std::move(pool), std::move(options)));
}

namespace sqlite {

SqliteCatalog::SqliteCatalog(std::unique_ptr<Pool> pool, SqliteOptions options)
    : pool_(std::move(pool)), options_(std::move(options)) {}

SqliteCatalog::~SqliteCatalog() {
  // Activity is a hint: a failure to write it costs nothing but a worse choice of what to evict.
  if (Result<Pool::Writer> writer = Write()) (void)writer->Commit();
}

void SqliteCatalog::Touch(NamespaceId ns) {
  const Micros now = Now();
  const std::lock_guard lock(mutex_);
  active_[ns] = now;
}

Status SqliteCatalog::NoteActivity(Connection& db) {
  std::unordered_map<NamespaceId, Micros> active;
  {
    const std::lock_guard lock(mutex_);
    active.swap(active_);
  }
  for (const auto& [ns, at] : active)
    TRY(db.Run("UPDATE namespaces SET last_active_us=max(last_active_us, ?) WHERE id=?", at, ns));
  return {};
}

Result<Pool::Writer> SqliteCatalog::Write() {
  TRY_ASSIGN(Pool::Writer writer, pool_->Write());
  TRY(NoteActivity(*writer));
  return writer;
}

Result<Change> SqliteCatalog::ChangeNamespace(NamespaceId ns, const std::function<Status(Op&)>& body) {
  TRY_ASSIGN(Pool::Writer writer, Write());
  Op op{*writer, ns, Now()};
  TRY(op.Check());
  TRY(body(op));
  TRY(op.Finish());
  TRY(writer.Commit());
  return std::move(op.change);
}

}  // namespace sqlite

}  // namespace inferscale
