#include "catalog/sqlite_catalog.h"

#include <chrono>

#include "base/limits.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_log.h"
#include "catalog/sqlite_schema.h"

namespace inferscale {

namespace {

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
  const std::filesystem::path path = folder / "catalog.db";
  const std::filesystem::path log = folder / "catalog.db-wal";
  TRY_ASSIGN(const bool lost, sqlite::LogIsDamaged(log));
  std::error_code none;  // no log: its size is uintmax_t(-1)
  const uintmax_t log_bytes = std::filesystem::file_size(log, none);
  if (report != nullptr) *report = {.changes_lost = lost, .unclean = !none && log_bytes > 0};
  const sqlite::ConnectionOptions connection = {options.vfs, false, options.secure_delete, options.check_pages};
  const auto prepare = [&](sqlite::Connection& db) {
    Status status = sqlite::Migrate(db, sqlite::Migrations(), options.program);
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
