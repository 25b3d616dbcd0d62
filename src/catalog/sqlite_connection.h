// SQLite with our errors: one connection, statements prepared once, rows read through a cursor.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "base/error.h"
#include "catalog/page_check_vfs.h"

namespace inferscale::sqlite {

// Bound as a BLOB; a plain string_view is bound as TEXT, by length.
struct Blob {
  std::string_view bytes;
};

// The Error for the last failed call on `db`.
Error SqliteError(sqlite3* db, int code, std::string_view action);

// A prepared statement of a connection, which must outlive its cursors.
struct Prepared {
  sqlite3_stmt* stmt = nullptr;
  bool in_use = false;  // by a cursor: the same statement cannot run inside itself
};

// Rows of a running statement; its end frees the statement and forgets what was bound. Move-only.
class Cursor {
 public:
  explicit Cursor(Prepared* prepared) : prepared_(prepared) {}
  Cursor(Cursor&& other) noexcept : prepared_(std::exchange(other.prepared_, nullptr)) {}
  Cursor& operator=(Cursor&& other) noexcept {
    std::swap(prepared_, other.prepared_);
    return *this;
  }
  ~Cursor();

  Result<bool> Next();  // false: no more rows
  // Values of the present row; views are valid until Next().
  bool IsNull(int column) const { return sqlite3_column_type(prepared_->stmt, column) == SQLITE_NULL; }
  int64_t Int(int column) const { return sqlite3_column_int64(prepared_->stmt, column); }
  uint64_t UInt(int column) const { return static_cast<uint64_t>(Int(column)); }
  uint32_t U32(int column) const { return static_cast<uint32_t>(Int(column)); }
  std::optional<int64_t> OptInt(int column) const;
  std::string_view Text(int column) const;   // NULL: empty
  std::string_view Bytes(int column) const;  // of a BLOB; NULL: empty

 private:
  Prepared* prepared_;
};

struct ConnectionOptions {
  std::string vfs;  // below the layer that checks pages (page_check_vfs.h)
  bool read_only = false;
  bool secure_delete = true;
  bool check_pages = true;  // false: PageMode::kTrust
};

// Used by one thread at a time.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> Open(const std::filesystem::path& path, const ConnectionOptions& options);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  // A cursor before the first row. sql is prepared at its first use and kept; it must be a literal or live as long as
  // the connection. Arguments are numbers, string_views, Blobs, nullopt and optionals of these; they are copied.
  template <class... Args>
  Result<Cursor> Query(std::string_view sql, const Args&... args) {
    TRY_ASSIGN(Cursor cursor, Start(sql));
    int place = 0;
    TRY(BindAll(SQLITE_TRANSIENT, place, args...));
    return cursor;
  }
  // What was written to the log, or cut off it, is durable.
  Status SyncLog();
  // All of the log is in the database file, durable, and the log empty, durable too. Nobody may read, in no
  // transaction.
  Status EmptyLog();
  // Closing leaves the log as it is, though this is the last connection: it is evidence.
  void KeepLog();
  // Its files are for their owner alone.
  void MakePrivate();
  // From now on; pages read before are forgotten. In no transaction.
  Status ReadPages(PageMode mode);

  // The same for a statement whose rows nobody wants.
  template <class... Args>
  Status Run(std::string_view sql, const Args&... args) {
    TRY_ASSIGN(Cursor cursor, Start(sql));
    int place = 0;
    TRY(BindAll(SQLITE_STATIC, place, args...));
    for (;;) {
      TRY_ASSIGN(const bool row, cursor.Next());
      if (!row) return {};
    }
  }
  // The first column of the first row, or nullopt without a row.
  template <class... Args>
  Result<std::optional<int64_t>> Value(std::string_view sql, const Args&... args) {
    TRY_ASSIGN(Cursor cursor, Query(sql, args...));
    TRY_ASSIGN(const bool row, cursor.Next());
    return row ? cursor.OptInt(0) : std::nullopt;
  }
  Status Script(const char* sql);  // several statements, not kept

  int64_t last_insert_id() const { return sqlite3_last_insert_rowid(db_); }
  uint64_t changes() const { return static_cast<uint64_t>(sqlite3_changes64(db_)); }
  bool in_transaction() const { return sqlite3_get_autocommit(db_) == 0; }
  sqlite3* db() const { return db_; }

 private:
  explicit Connection(sqlite3* db) : db_(db) {}
  Result<Cursor> Start(std::string_view sql);

  template <class... Args>
  Status BindAll([[maybe_unused]] sqlite3_destructor_type lifetime, [[maybe_unused]] int& place, const Args&... args) {
    int code = SQLITE_OK;
    ((code = code != SQLITE_OK ? code : Bind(++place, lifetime, args)), ...);
    if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db_, code, "bind"));
    return {};
  }
  int Bind(int place, sqlite3_destructor_type lifetime, std::string_view text);
  int Bind(int place, sqlite3_destructor_type lifetime, const Blob& blob);
  int Bind(int place, sqlite3_destructor_type, std::nullopt_t) { return sqlite3_bind_null(bound_, place); }
  template <class T>
  requires std::is_integral_v<T>
  int Bind(int place, sqlite3_destructor_type, T value) {
    return sqlite3_bind_int64(bound_, place, static_cast<int64_t>(value));
  }
  template <class T>
  int Bind(int place, sqlite3_destructor_type lifetime, const std::optional<T>& value) {
    return value ? Bind(place, lifetime, *value) : sqlite3_bind_null(bound_, place);
  }

  sqlite3* db_;
  sqlite3_stmt* bound_ = nullptr;  // the statement that BindAll fills
  std::unordered_map<std::string_view, Prepared> prepared_;
};

// BEGIN … COMMIT; rolls back when it is destroyed before Commit succeeded.
class Transaction {
 public:
  static Result<Transaction> Begin(Connection& connection, bool write);
  Transaction(Transaction&& other) noexcept : connection_(std::exchange(other.connection_, nullptr)) {}
  ~Transaction();
  Status Commit();

 private:
  explicit Transaction(Connection* connection) : connection_(connection) {}
  Connection* connection_;
};

}  // namespace inferscale::sqlite
