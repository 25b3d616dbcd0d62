// The connections to one file: one writer, several readers. Thread-safe.
#pragma once

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "catalog/sqlite_connection.h"

namespace inferscale::sqlite {

class Pool {
 public:
  // A read transaction: sees what was committed when it read first.
  class Reader {
   public:
    Reader(Reader&& other) noexcept
        : pool_(std::exchange(other.pool_, nullptr)),
          connection_(std::move(other.connection_)),
          transaction_(std::move(other.transaction_)) {}
    ~Reader();
    Connection& operator*() const { return *connection_; }

   private:
    friend class Pool;
    Reader(Pool* pool, std::unique_ptr<Connection> connection, Transaction transaction)
        : pool_(pool), connection_(std::move(connection)), transaction_(std::move(transaction)) {}
    Pool* pool_;
    std::unique_ptr<Connection> connection_;
    std::optional<Transaction> transaction_;
  };

  // A write transaction; rolled back when destroyed before Commit succeeded.
  class Writer {
   public:
    Connection& operator*() const { return *connection_; }
    Status Commit() { return transaction_.Commit(); }

   private:
    friend class Pool;
    Writer(std::unique_lock<std::mutex> lock, Connection* connection, Transaction transaction)
        : lock_(std::move(lock)), connection_(connection), transaction_(std::move(transaction)) {}
    std::unique_lock<std::mutex> lock_;
    Connection* connection_;
    Transaction transaction_;
  };

  // Calls prepare with the first connection.
  static Result<std::unique_ptr<Pool>> Open(const std::filesystem::path& path, const ConnectionOptions& options,
                                            int readers, const std::function<Status(Connection&)>& prepare);

  Result<Reader> Read();   // waits for a free connection
  Result<Writer> Write();  // waits for its turn
  // Calls body(writer) while nobody reads or writes, outside of a transaction. When it succeeded all connections are
  // replaced by new ones: their memory (pages, the last cells written) may hold what was deleted.
  Status Alone(const std::function<Status(Connection&)>& body);

 private:
  Pool(std::filesystem::path path, ConnectionOptions options, int readers, std::unique_ptr<Connection> writer)
      : path_(std::move(path)), options_(std::move(options)), readers_(readers), writer_(std::move(writer)) {}
  Status Replace();
  void GiveBack(std::unique_ptr<Connection> connection);

  const std::filesystem::path path_;
  const ConnectionOptions options_;
  const int readers_;

  std::mutex write_mutex_;  // taken before mutex_
  std::unique_ptr<Connection> writer_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::vector<std::unique_ptr<Connection>> idle_;
  int lent_ = 0;        // readers that are out
  bool alone_ = false;  // nobody may start to read
};

}  // namespace inferscale::sqlite
