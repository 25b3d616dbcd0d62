#include "catalog/sqlite_connection.h"

#include <cerrno>

#include "base/assert.h"
#include "catalog/sqlite_memory.h"
#include "catalog/sqlite_page.h"

namespace inferscale::sqlite {

namespace {

// Nobody else has the file, so waiting is for our own checkpoints only; they take milliseconds.
constexpr int kBusyMillis = 10'000;

// EFBIG: the process may write no larger files.
bool IsFull(int number) { return number == ENOSPC || number == EDQUOT || number == EFBIG; }

// errno of what failed, where it says that there is no room; else that of the last call. SQLite's own is of whatever
// came after the failure (a lock given back), so the files are asked for theirs.
int ErrnoOf(sqlite3* db) {
  if (db == nullptr) return 0;
  sqlite3_file* log = nullptr;
  int of_database = 0, of_log = 0;
  (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_LAST_ERRNO, &of_database);
  (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (log != nullptr && log->pMethods != nullptr)
    (void)log->pMethods->xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &of_log);
  return IsFull(of_log) ? of_log : IsFull(of_database) ? of_database : sqlite3_system_errno(db);
}

ErrorCode CodeOf(int code, int system_errno) {
  if (code == SQLITE_IOERR_DATA) return ErrorCode::kCorrupt;
  const int primary = code & 0xFF;
  // Of other codes errno says nothing: it is kept until the next of these.
  const bool has_errno = primary == SQLITE_CANTOPEN || (primary == SQLITE_IOERR && code != SQLITE_IOERR_READ);
  if (has_errno && IsFull(system_errno)) return ErrorCode::kNoSpace;
  if (code == SQLITE_IOERR_SHMSIZE) return ErrorCode::kNoSpace;  // the file of the log's index cannot grow
  switch (primary) {
    case SQLITE_FULL:
      return ErrorCode::kNoSpace;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return ErrorCode::kCorrupt;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorCode::kPermission;
    case SQLITE_TOOBIG:
      return ErrorCode::kTooLarge;
    case SQLITE_IOERR:
    case SQLITE_BUSY:
    case SQLITE_NOMEM:
      return ErrorCode::kIo;
    case SQLITE_CANTOPEN:
      return system_errno == EACCES ? ErrorCode::kPermission : ErrorCode::kIo;
    default:
      return ErrorCode::kInternal;
  }
}

// Where SQLite would say "disk I/O error". Its messages name tables and columns, never values.
const char* Complaint(sqlite3* db, int code, ErrorCode error) {
  if (error == ErrorCode::kNoSpace) return "the disk is full";
  if (code == SQLITE_IOERR_DATA) return "a page of the database is damaged";
  return db != nullptr ? sqlite3_errmsg(db) : sqlite3_errstr(code);
}

const char* AdviceFor(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoSpace:
      return "; free some space, or raise the limit of file sizes (ulimit -f), and try again";
    case ErrorCode::kCorrupt:
      return "; run `inferscale fsck --repair`, or restore a copy";
    case ErrorCode::kPermission:
      return "; check the rights of this user on its folder";
    default:
      return "";
  }
}

}  // namespace

Error SqliteError(sqlite3* db, int code, std::string_view action) {
  const int extended = db != nullptr ? sqlite3_extended_errcode(db) : code;
  if (extended != SQLITE_OK) code = extended;
  const ErrorCode error = CodeOf(code, ErrnoOf(db));
  return {error, "catalog: cannot " + std::string(action) + ": " + Complaint(db, code, error) + AdviceFor(error)};
}

Cursor::~Cursor() {
  if (prepared_ == nullptr) return;
  sqlite3_reset(prepared_->stmt);
  sqlite3_clear_bindings(prepared_->stmt);
  prepared_->in_use = false;
}

Result<bool> Cursor::Next() {
  const int code = sqlite3_step(prepared_->stmt);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return tl::unexpected<Error>(SqliteError(sqlite3_db_handle(prepared_->stmt), code, "run a statement"));
}

std::optional<int64_t> Cursor::OptInt(int column) const {
  if (IsNull(column)) return std::nullopt;
  return Int(column);
}

std::string_view Cursor::Text(int column) const {
  const auto* text = sqlite3_column_text(prepared_->stmt, column);
  const int size = sqlite3_column_bytes(prepared_->stmt, column);
  return text == nullptr ? std::string_view()
                         : std::string_view(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
}

std::string_view Cursor::Bytes(int column) const {
  const void* bytes = sqlite3_column_blob(prepared_->stmt, column);
  const int size = sqlite3_column_bytes(prepared_->stmt, column);
  return bytes == nullptr ? std::string_view()
                          : std::string_view(static_cast<const char*>(bytes), static_cast<size_t>(size));
}

Result<std::unique_ptr<Connection>> Connection::Open(const std::filesystem::path& path,
                                                     const ConnectionOptions& options) {
  ClearFreedMemory();
  sqlite3* db = nullptr;
  const int flags = (options.read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE) |
                    SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE;
  TRY_ASSIGN(const std::string vfs, PageCheckVfs(options.vfs));
  const int code = sqlite3_open_v2(path.c_str(), &db, flags, vfs.c_str());
  if (code != SQLITE_OK) {
    Error error = SqliteError(db, code, "open " + path.string());
    sqlite3_close(db);
    return tl::unexpected<Error>(std::move(error));
  }
  std::unique_ptr<Connection> connection(new Connection(db));
  std::error_code error;
  if (!options.read_only && std::filesystem::file_size(path, error) == 0) connection->MakePrivate();
  sqlite3_busy_timeout(db, kBusyMillis);
  // The log that a crash left is good for the pages that it has, whatever they are in the file.
  if (!options.check_pages) TRY(SetPageMode(db, PageMode::kMend));
  // Of a new file, and of one that is made anew by VACUUM.
  int reserved = kPageSumBytes;
  (void)sqlite3_file_control(db, "main", SQLITE_FCNTL_RESERVE_BYTES, &reserved);
  // Sorts stay in memory: a temporary file would hold text where no erasure looks. 16 MiB of cache a connection.
  TRY(
      connection->Script("PRAGMA temp_store=MEMORY; PRAGMA cache_size=-16384; PRAGMA foreign_keys=ON;"
                         "PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON;"));
  TRY(connection->Script(options.secure_delete ? "PRAGMA secure_delete=ON" : "PRAGMA secure_delete=OFF"));
  if (!options.read_only)
    // 4,000 pages of 4 KiB before a checkpoint: a batch of 256 facts writes about 1,000.
    TRY(connection->Script("PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=4000;"));
  if (options.check_pages) return connection;
  if (!options.read_only) TRY(connection->EmptyLog());
  TRY(connection->ReadPages(PageMode::kTrust));
  return connection;
}

Status Connection::SyncLog() {
  sqlite3_file* log = nullptr;
  int code = sqlite3_file_control(db_, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log);
  if (code == SQLITE_OK && log != nullptr && log->pMethods != nullptr)
    code = log->pMethods->xSync(log, SQLITE_SYNC_FULL);
  if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db_, code, "sync the log"));
  return {};
}

Status Connection::EmptyLog() {
  // The pages are synced where they are before the log is cut.
  TRY_ASSIGN(const auto busy, Value("PRAGMA wal_checkpoint(TRUNCATE)"));
  if (busy != 0) return Fail(ErrorCode::kIo, "catalog: a reader kept the log from being emptied; try again");
  // SQLite does not sync the cut, and a power cut would bring the old log back.
  return SyncLog();
}

void Connection::MakePrivate() {
  using std::filesystem::perms;
  // SQLite gives a new log the mode of the database.
  for (const char* suffix : {"", "-wal", "-shm"}) {
    std::error_code none;
    std::filesystem::permissions(std::string(sqlite3_db_filename(db_, "main")) + suffix,
                                 perms::owner_read | perms::owner_write, none);
  }
}

void Connection::KeepLog() { (void)sqlite3_db_config(db_, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, nullptr); }

Status Connection::ReadPages(PageMode mode) {
  sqlite3_db_release_memory(db_);
  return SetPageMode(db_, mode);
}

Connection::~Connection() {
  for (auto& [sql, prepared] : prepared_) {
    INFERSCALE_ASSERT(!prepared.in_use);
    sqlite3_finalize(prepared.stmt);
  }
  sqlite3_close(db_);
}

Result<Cursor> Connection::Start(std::string_view sql) {
  Prepared& prepared = prepared_[sql];
  if (prepared.stmt == nullptr) {
    const int code = sqlite3_prepare_v3(db_, sql.data(), static_cast<int>(sql.size()), SQLITE_PREPARE_PERSISTENT,
                                        &prepared.stmt, nullptr);
    if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db_, code, "prepare a statement"));
  }
  INFERSCALE_ASSERT(!prepared.in_use);
  prepared.in_use = true;
  bound_ = prepared.stmt;
  return Cursor(&prepared);
}

int Connection::Bind(int place, sqlite3_destructor_type lifetime, std::string_view text) {
  return sqlite3_bind_text64(bound_, place, text.data() == nullptr ? "" : text.data(), text.size(), lifetime,
                             SQLITE_UTF8);
}

int Connection::Bind(int place, sqlite3_destructor_type lifetime, const Blob& blob) {
  return sqlite3_bind_blob64(bound_, place, blob.bytes.data() == nullptr ? "" : blob.bytes.data(), blob.bytes.size(),
                             lifetime);
}

Status Connection::Script(const char* sql) {
  const int code = sqlite3_exec(db_, sql, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db_, code, "run a statement"));
  return {};
}

Result<Transaction> Transaction::Begin(Connection& connection, bool write) {
  TRY(connection.Run(write ? "BEGIN IMMEDIATE" : "BEGIN"));
  return Transaction(&connection);
}

Transaction::~Transaction() {
  // Some errors roll back by themselves.
  if (connection_ != nullptr && connection_->in_transaction()) (void)connection_->Run("ROLLBACK");
}

Status Transaction::Commit() {
  TRY(connection_->Run("COMMIT"));
  connection_ = nullptr;
  return {};
}

}  // namespace inferscale::sqlite
