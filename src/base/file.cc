#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

namespace inferscale {

namespace fs = std::filesystem;

namespace {

// Owns a file descriptor.
class Fd {
 public:
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;
  int get() const { return fd_; }
  int Close() {
    const int fd = fd_;
    fd_ = -1;
    return ::close(fd);
  }

 private:
  int fd_;
};

tl::unexpected<Error> FailErrno(std::string_view action, const fs::path& path) {
  return tl::unexpected<Error>(ErrnoError(errno, action, path));
}

Status WriteAll(int fd, std::string_view bytes, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("write", path);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Status WriteTemporary(const fs::path& path, std::span<const std::string_view> pieces, Durability durability) {
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (fd.get() < 0) return FailErrno("create", path);
  for (const std::string_view piece : pieces) TRY(WriteAll(fd.get(), piece, path));
  if (durability == Durability::kSynced && ::fsync(fd.get()) != 0) return FailErrno("sync", path);
  if (fd.Close() != 0) return FailErrno("close", path);
  return {};
}

}  // namespace

Error ErrnoError(int errno_value, std::string_view action, const fs::path& path) {
  ErrorCode code = ErrorCode::kIo;
  std::string advice;
  switch (errno_value) {
    case ENOENT: code = ErrorCode::kNotFound; break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = ErrorCode::kPermission;
      advice = "; check the rights of this user on that path";
      break;
    case ENOSPC:
    case EDQUOT:
      code = ErrorCode::kNoSpace;
      advice = "; free some disk space or choose another folder";
      break;
    default: break;
  }
  return {code, "cannot " + std::string(action) + " " + path.string() + ": " + std::strerror(errno_value) + advice};
}

Result<std::string> ReadFile(const fs::path& path, size_t max_bytes) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return FailErrno("open", path);
  struct stat st {};
  if (::fstat(fd.get(), &st) != 0) return FailErrno("stat", path);
  if (S_ISDIR(st.st_mode)) return Fail(ErrorCode::kInvalidArgument, path.string() + " is a folder, not a file");
  // One that never ends would fill max_bytes of memory before it is refused. A terminal ends with Ctrl-D.
  const bool is_null = S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 3);  // the usual way to say "nothing"
  if ((S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)) && !is_null && ::isatty(fd.get()) == 0)
    return Fail(ErrorCode::kInvalidArgument, path.string() + " is a device, not a file");
  std::string content;
  content.reserve(S_ISREG(st.st_mode) ? std::min<size_t>(st.st_size, max_bytes) + 1 : 4096);
  char buffer[64 * 1024];
  for (;;) {  // not trusting st_size: pipes have none, and a file may grow
    const ssize_t n = ::read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FailErrno("read", path);
    if (n == 0) return content;
    if (content.size() + static_cast<size_t>(n) > max_bytes)
      return Fail(ErrorCode::kTooLarge,
                  path.string() + " is larger than the limit of " + std::to_string(max_bytes) + " bytes");
    content.append(buffer, static_cast<size_t>(n));
  }
}

Status WriteFileAtomic(const fs::path& path, std::span<const std::string_view> pieces, Durability durability) {
  static std::atomic<uint64_t> counter{0};
  fs::path temporary = path;
  temporary += ".tmp." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  if (Status written = WriteTemporary(temporary, pieces, durability); !written) {
    ::unlink(temporary.c_str());
    return written;
  }
  if (::rename(temporary.c_str(), path.c_str()) != 0) {
    auto failed = FailErrno("rename to", path);
    ::unlink(temporary.c_str());
    return failed;
  }
  if (durability == Durability::kFast) return {};
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  Fd dir(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (dir.get() >= 0) ::fsync(dir.get());  // the rename itself; file systems without it are still consistent
  return {};
}

Status WriteFileAtomic(const fs::path& path, std::string_view content) {
  return WriteFileAtomic(path, std::span<const std::string_view>(&content, 1));
}

Status MakeDirectories(const fs::path& path) {
  std::error_code ec;
  fs::create_directories(path, ec);
  if (ec) return tl::unexpected<Error>(ErrnoError(ec.value(), "create folder", path));
  return {};
}

}  // namespace inferscale
