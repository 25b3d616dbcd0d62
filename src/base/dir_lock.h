// One owner for a folder. The lock is the kernel's, on an open file, so that it ends with the process however that
// ends: a crash leaves nothing to clean up.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// Move-only; released by the destructor. A child made by fork() without exec() shares the lock and keeps it.
class DirLock {
 public:
  // Takes the lock of `folder` (file `lock` in it), or fails at once: kInUse says "… is in use by pid P (command)".
  // command: what others are told, such as "inferscale serve"; no user's text, it is written to the file. The folder
  // must be there. kPermission: also when `lock` is a link; what that leads to is left alone. kNotFound, kNoSpace, kIo.
  static Result<DirLock> Acquire(const std::filesystem::path& folder, std::string_view command);

  DirLock(DirLock&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  DirLock& operator=(DirLock&& other) noexcept;
  ~DirLock();

 private:
  explicit DirLock(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace inferscale
