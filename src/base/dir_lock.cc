#include "base/dir_lock.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <string>
#include <utility>

#include "base/file.h"

namespace inferscale {

namespace {

constexpr size_t kCommandBytes = 200;

// "PID\ncommand\n" of the lock file.
struct Owner {
  pid_t pid = 0;
  std::string command;
};

Owner ReadOwner(int fd) {
  char buffer[kCommandBytes + 32];
  const ssize_t n = ::pread(fd, buffer, sizeof buffer, 0);
  Owner owner;
  if (n <= 0) return owner;
  const std::string_view text(buffer, static_cast<size_t>(n));
  const size_t end = text.find('\n');
  const auto parsed = std::from_chars(text.data(), text.data() + std::min(end, text.size()), owner.pid);
  if (parsed.ec != std::errc() || end == std::string_view::npos) return {};
  const std::string_view rest = text.substr(end + 1);
  owner.command = rest.substr(0, rest.find('\n'));
  return owner;
}

// Whoever took the lock writes its name a moment later: until then the file is empty or names an owner that is gone.
Owner WaitForOwner(int fd) {
  for (int i = 0; i < 20; ++i) {
    Owner owner = ReadOwner(fd);
    if (owner.pid > 0 && (::kill(owner.pid, 0) == 0 || errno == EPERM)) return owner;
    ::poll(nullptr, 0, 10);
  }
  return {};
}

Error InUse(const std::filesystem::path& folder, const Owner& owner) {
  std::string by = "another process";
  if (owner.pid > 0) by = "pid " + std::to_string(owner.pid) + " (" + owner.command + ")";
  return {ErrorCode::kInUse, folder.string() + " is in use by " + by + "; stop it, or use another folder"};
}

// It would be overwritten: what it leads to is somebody else's.
Error NotOurs(const std::filesystem::path& path) {
  return {ErrorCode::kPermission, path.string() + " is a link, or no plain file: remove it"};
}

bool WriteOwner(int fd, std::string_view command) {
  std::string text = std::to_string(::getpid()) + "\n";
  for (const char c : command.substr(0, kCommandBytes)) text += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  text += '\n';
  return ::ftruncate(fd, 0) == 0 && ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
}

}  // namespace

Result<DirLock> DirLock::Acquire(const std::filesystem::path& folder, std::string_view command) {
  const std::filesystem::path path = folder / "lock";
  DirLock lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock.fd_ < 0 && errno == ELOOP) return tl::unexpected<Error>(NotOurs(path));
  if (lock.fd_ < 0) return tl::unexpected<Error>(ErrnoError(errno, "open", path));
  struct stat st {};
  if (::fstat(lock.fd_, &st) != 0) return tl::unexpected<Error>(ErrnoError(errno, "stat", path));
  if (!S_ISREG(st.st_mode) || st.st_nlink > 1) return tl::unexpected<Error>(NotOurs(path));
  int locked;
  do locked = ::flock(lock.fd_, LOCK_EX | LOCK_NB);
  while (locked != 0 && errno == EINTR);
  if (locked != 0) {
    if (errno == EWOULDBLOCK) return tl::unexpected<Error>(InUse(folder, WaitForOwner(lock.fd_)));
    return tl::unexpected<Error>(ErrnoError(errno, "lock", path));
  }
  if (!WriteOwner(lock.fd_, command)) return tl::unexpected<Error>(ErrnoError(errno, "write", path));
  return lock;
}

DirLock& DirLock::operator=(DirLock&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirLock::~DirLock() {
  if (fd_ >= 0) ::close(fd_);  // which ends the lock
}

}  // namespace inferscale
