// What a store of files does to files, behind an interface: a test replaces it by one that records every operation, so
// that it can make the folder as it would be after a power cut at any of them (base/file_ops_test_util.h).
//
// Rules of the file system that callers may rely on, and no others: a write is durable after Sync of its file; a new,
// renamed or removed name is durable after SyncFolder; until then any 512-byte sector of a write may or may not be
// there, and any of the names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace inferscale {

struct FileSize {
  uint64_t bytes = 0;      // the length
  uint64_t allocated = 0;  // on the disk, without its holes
};

// An open file; closed by the destructor. Thread-safe: every call names its own place in the file.
class File {
 public:
  virtual ~File() = default;

  // Writes all of the pieces one after another from `offset` on. kNoSpace (also a size limit of the process): part of
  // it may be there. kIo.
  virtual Status Write(uint64_t offset, std::span<const std::string_view> pieces) = 0;
  // Fills `into` from `offset` on. Returns how many bytes were read: fewer only at the file's end. kIo.
  virtual Result<size_t> Read(uint64_t offset, std::span<std::byte> into) = 0;
  // All that was written before is durable, the length included. After an error nothing is known about any of it. kIo,
  // kNoSpace.
  virtual Status Sync() = 0;
  virtual Status Truncate(uint64_t bytes) = 0;
  // The range reads as zeros and takes no space; the length stays. False: the file system cannot, nothing was done.
  virtual Result<bool> PunchHole(uint64_t offset, uint64_t bytes) = 0;
  virtual Result<FileSize> Size() = 0;
  // For reads by io_uring. Owned by the file.
  virtual int descriptor() const = 0;
};

enum class OpenMode : uint8_t {
  kRead,
  kReadWrite,
  kCreate,  // reads and writes; the name must be free. Mode 0600
};

// Thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;

  // kNotFound, kPermission, kNoSpace, kIo; kIo as well when kCreate finds the name taken.
  virtual Result<std::unique_ptr<File>> Open(const std::filesystem::path& path, OpenMode mode) = 0;
  virtual Status Unlink(const std::filesystem::path& path) = 0;
  virtual Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) = 0;
  // The folder and its missing parents, mode 0700 each; they are durable on return.
  virtual Status MakeFolder(const std::filesystem::path& folder) = 0;
  virtual Status SyncFolder(const std::filesystem::path& folder) = 0;
  // Names of the regular files in it, sorted.
  virtual Result<std::vector<std::string>> List(const std::filesystem::path& folder) = 0;
};

// The operating system's own.
FileOps& PosixFiles();

}  // namespace inferscale
