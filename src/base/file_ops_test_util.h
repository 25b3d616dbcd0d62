// A power cut at any moment. RecordingFiles does what it is asked in a real folder and keeps a log of every operation;
// MakeAfterPowerCut makes a folder as a disk may have it when the power went after the first n of them.
//
// The log is of file operations as such: other code that writes files (a database through its own file layer) can add
// to it, with names relative to the folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file_ops.h"

namespace inferscale {

struct FileOp {
  enum class Kind : uint8_t { kCreate, kWrite, kTruncate, kPunch, kSync, kUnlink, kRename, kMakeFolder, kSyncFolder };
  Kind kind = Kind::kWrite;
  std::string name;     // of the file or folder, relative to the folder recorded; "" is that folder
  std::string to;       // kRename
  uint64_t offset = 0;  // kWrite, kPunch
  uint64_t length = 0;  // kPunch; kTruncate: the new length
  std::string bytes;    // kWrite
};

// Thread-safe.
class FileOpLog {
 public:
  void Add(FileOp op) {
    std::lock_guard lock(mutex_);
    ops_.push_back(std::move(op));
  }
  size_t size() const {
    std::lock_guard lock(mutex_);
    return ops_.size();
  }
  std::vector<FileOp> Copy() const {
    std::lock_guard lock(mutex_);
    return ops_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<FileOp> ops_;
};

// What becomes of operations that no sync covers.
enum class Unsynced : uint8_t {
  kDropped,  // nothing of them is there
  kKept,     // all is there: what a killed process leaves
  kTorn,     // each 512-byte sector of a write, each change of a length and of a name: by the toss of a coin
};

// Makes `target` (which must not exist) from the first `count` operations.
void MakeAfterPowerCut(const std::vector<FileOp>& ops, size_t count, Unsynced unsynced, uint64_t seed,
                       const std::filesystem::path& target);

// Thread-safe.
class RecordingFiles final : public FileOps {
 public:
  // root: the folder recorded; files elsewhere are refused. log: outlives this.
  RecordingFiles(std::filesystem::path root, FileOpLog* log) : root_(std::move(root)), log_(log) {}

  Result<std::unique_ptr<File>> Open(const std::filesystem::path& path, OpenMode mode) override;
  Status Unlink(const std::filesystem::path& path) override;
  Status Rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status MakeFolder(const std::filesystem::path& folder) override;
  Status SyncFolder(const std::filesystem::path& folder) override;
  Result<std::vector<std::string>> List(const std::filesystem::path& folder) override;

  // Failures to order. Asked before each operation; an error stands in for it, and nothing is done.
  std::function<Status(const FileOp&)> before;
  bool can_punch = true;

  Status Note(FileOp op);  // asks `before`, then records; for the files opened here
  std::string NameOf(const std::filesystem::path& path) const;

 private:
  const std::filesystem::path root_;
  FileOpLog* const log_;
};

}  // namespace inferscale
