#include "catalog/sqlite_pool.h"

namespace inferscale::sqlite {

Pool::Reader::~Reader() {
  if (pool_ == nullptr) return;
  transaction_.reset();  // ends it
  pool_->GiveBack(std::move(connection_));
}

Result<std::unique_ptr<Pool>> Pool::Open(const std::filesystem::path& path, const ConnectionOptions& options,
                                         int readers, const std::function<Status(Connection&)>& prepare) {
  TRY_ASSIGN(std::unique_ptr<Connection> writer, Connection::Open(path, options));
  TRY(prepare(*writer));
  return std::unique_ptr<Pool>(new Pool(path, options, readers, std::move(writer)));
}

Result<Pool::Reader> Pool::Read() {
  std::unique_ptr<Connection> connection;
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !alone_ && lent_ < readers_; });
    ++lent_;
    if (!idle_.empty()) {
      connection = std::move(idle_.back());
      idle_.pop_back();
    }
  }
  if (connection == nullptr) {
    ConnectionOptions options = options_;
    options.read_only = true;
    auto opened = Connection::Open(path_, options);
    if (!opened) {
      GiveBack(nullptr);
      return tl::unexpected<Error>(std::move(opened).error());
    }
    connection = std::move(*opened);
  }
  auto transaction = Transaction::Begin(*connection, false);
  if (!transaction) {
    GiveBack(std::move(connection));
    return tl::unexpected<Error>(std::move(transaction).error());
  }
  return Reader(this, std::move(connection), std::move(*transaction));
}

void Pool::GiveBack(std::unique_ptr<Connection> connection) {
  {
    const std::lock_guard lock(mutex_);
    --lent_;
    if (connection != nullptr) idle_.push_back(std::move(connection));
  }
  changed_.notify_all();
}

Result<Pool::Writer> Pool::Write() {
  std::unique_lock lock(write_mutex_);
  TRY_ASSIGN(Transaction transaction, Transaction::Begin(*writer_, true));
  return Writer(std::move(lock), writer_.get(), std::move(transaction));
}

Status Pool::Replace() {
  // Before the old one goes: with the last connection the WAL would go too.
  TRY_ASSIGN(std::unique_ptr<Connection> writer, Connection::Open(path_, options_));
  writer_ = std::move(writer);
  const std::lock_guard lock(mutex_);
  idle_.clear();
  return {};
}

Status Pool::Alone(const std::function<Status(Connection&)>& body) {
  const std::lock_guard write_lock(write_mutex_);
  {
    std::unique_lock lock(mutex_);
    alone_ = true;
    changed_.wait(lock, [this] { return lent_ == 0; });
  }
  Status status = body(*writer_);
  if (status) status = Replace();
  {
    const std::lock_guard lock(mutex_);
    alone_ = false;
  }
  changed_.notify_all();
  return status;
}

}  // namespace inferscale::sqlite
