#include "base/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/file.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

// Pieces per system call; the system allows 1,024.
constexpr size_t kPiecesAtOnce = 16;

tl::unexpected<Error> FailErrno(std::string_view action, const fs::path& path) {
  const int number = errno;
  Error error = ErrnoError(number, action, path);
  if (number == EFBIG) error.code = ErrorCode::kNoSpace;  // RLIMIT_FSIZE: as good as a full disk
  return tl::unexpected<Error>(std::move(error));
}

template <class Call>
auto Retried(Call call) {
  for (;;)
    if (const auto result = call(); result >= 0 || errno != EINTR) return result;
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, fs::path path) : fd_(fd), path_(std::move(path)) {}
  ~PosixFile() override { ::close(fd_); }

  Status Write(uint64_t offset, std::span<const std::string_view> pieces) override;
  Result<size_t> Read(uint64_t offset, std::span<std::byte> into) override;

  Status Sync() override {
    if (Retried([&] { return ::fdatasync(fd_); }) != 0) return FailErrno("sync", path_);
    return {};
  }

  Status Truncate(uint64_t bytes) override {
    if (Retried([&] { return ::ftruncate(fd_, static_cast<off_t>(bytes)); }) != 0) return FailErrno("truncate", path_);
    return {};
  }

  Result<bool> PunchHole(uint64_t offset, uint64_t bytes) override {
    if (bytes == 0) return true;
    const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    const auto at = static_cast<off_t>(offset), length = static_cast<off_t>(bytes);
    if (Retried([&] { return ::fallocate(fd_, mode, at, length); }) == 0) return true;
    if (errno == EOPNOTSUPP || errno == ENOSYS) return false;
    return FailErrno("punch a hole into", path_);
  }

  Result<FileSize> Size() override {
    struct stat st {};
    if (::fstat(fd_, &st) != 0) return FailErrno("stat", path_);
    constexpr uint64_t kStatBlock = 512;  // st_blocks counts these, whatever the file system's own
    return FileSize{static_cast<uint64_t>(st.st_size), static_cast<uint64_t>(st.st_blocks) * kStatBlock};
  }

  int descriptor() const override { return fd_; }

 private:
  const int fd_;
  const fs::path path_;
};

Status PosixFile::Write(uint64_t offset, std::span<const std::string_view> pieces) {
  size_t skip = 0;  // bytes of the first piece that are written already
  while (!pieces.empty()) {
    std::array<iovec, kPiecesAtOnce> vectors;
    const size_t count = std::min(pieces.size(), vectors.size());
    for (size_t i = 0; i < count; ++i) {
      const std::string_view piece = pieces[i].substr(i == 0 ? skip : 0);
      vectors[i] = {const_cast<char*>(piece.data()), piece.size()};
    }
    const ssize_t n =
        Retried([&] { return ::pwritev(fd_, vectors.data(), static_cast<int>(count), static_cast<off_t>(offset)); });
    if (n < 0) return FailErrno("write", path_);
    offset += static_cast<uint64_t>(n);
    skip += static_cast<size_t>(n);
    while (!pieces.empty() && skip >= pieces.front().size()) {
      skip -= pieces.front().size();
      pieces = pieces.subspan(1);
    }
  }
  return {};
}

Result<size_t> PosixFile::Read(uint64_t offset, std::span<std::byte> into) {
  size_t done = 0;
  while (done < into.size()) {
    const ssize_t n = Retried(
        [&] { return ::pread(fd_, into.data() + done, into.size() - done, static_cast<off_t>(offset + done)); });
    if (n < 0) return FailErrno("read", path_);
    if (n == 0) break;
    done += static_cast<size_t>(n);
  }
  return done;
}

class PosixFileOps final : public FileOps {
 public:
  Result<std::unique_ptr<File>> Open(const fs::path& path, OpenMode mode) override {
    int flags = O_CLOEXEC | (mode == OpenMode::kRead ? O_RDONLY : O_RDWR);
    if (mode == OpenMode::kCreate) flags |= O_CREAT | O_EXCL;
    const int fd = Retried([&] { return ::open(path.c_str(), flags, 0600); });
    if (fd < 0) return FailErrno(mode == OpenMode::kCreate ? "create" : "open", path);
    return std::make_unique<PosixFile>(fd, path);
  }

  Status Unlink(const fs::path& path) override {
    if (::unlink(path.c_str()) != 0) return FailErrno("remove", path);
    return {};
  }

  Status Rename(const fs::path& from, const fs::path& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return FailErrno("rename to", to);
    return {};
  }

  Status MakeFolder(const fs::path& folder) override {
    std::vector<fs::path> missing;
    std::error_code ec;
    for (fs::path at = fs::absolute(folder, ec).lexically_normal(); !fs::exists(at, ec); at = at.parent_path())
      if (at.has_filename()) missing.push_back(at);
    for (auto at = missing.rbegin(); at != missing.rend(); ++at) {
      if (::mkdir(at->c_str(), 0700) != 0 && errno != EEXIST) return FailErrno("create folder", *at);
      TRY(SyncFolder(at->parent_path()));
    }
    return {};
  }

  Status SyncFolder(const fs::path& folder) override {
    const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return FailErrno("open", folder);
    const PosixFile opened(fd, folder);
    // EINVAL: a file system without it, such as some network ones, has nothing to be made durable here.
    if (Retried([&] { return ::fsync(fd); }) != 0 && errno != EINVAL) return FailErrno("sync", folder);
    return {};
  }

  Result<std::vector<std::string>> List(const fs::path& folder) override {
    std::error_code ec;
    std::vector<std::string> names;
    for (fs::directory_iterator at(folder, ec), end; !ec && at != end; at.increment(ec)) {
      std::error_code not_ours;
      if (at->symlink_status(not_ours).type() == fs::file_type::regular)
        names.push_back(at->path().filename().string());
    }
    if (ec) return tl::unexpected<Error>(ErrnoError(ec.value(), "list", folder));
    std::sort(names.begin(), names.end());
    return names;
  }
};

}  // namespace

FileOps& PosixFiles() {
  static PosixFileOps ops;
  return ops;
}

}  // namespace inferscale
