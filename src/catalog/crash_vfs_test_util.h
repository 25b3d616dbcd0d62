// SQLite's file operations in a log for power cuts (base/file_ops_test_util.h). Other files of the same folder can be
// recorded in the same log by RecordingFiles: then a cut hits the catalog and the segment store at one moment.
//
//   FileOpLog log;
//   const RecordingVfs vfs(folder, &log);
//   RecordingFiles files(folder, &log);              // SegmentStoreOptions::files
//   OpenSqliteCatalog(folder, {.vfs = vfs.name()});
//   …
//   MakeAfterPowerCut(log.Copy(), cut, Unsynced::kTorn, seed, elsewhere);
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/file_ops_test_util.h"

namespace inferscale {

// Registered with SQLite while it lives, which must be longer than every catalog that uses it. Databases in other
// folders are refused. Files are written in place; a sync is only noted, as by RecordingFiles. Shared memory ("-shm")
// is not recorded: SQLite makes it anew. Thread-safe as SQLite's own.
class RecordingVfs {
 public:
  // root, log: as of RecordingFiles.
  RecordingVfs(std::filesystem::path root, FileOpLog* log);
  RecordingVfs(const RecordingVfs&) = delete;
  RecordingVfs& operator=(const RecordingVfs&) = delete;
  ~RecordingVfs();
  const std::string& name() const;
  // A failure to order: asked before each write, truncation and sync of a recorded file; what is not 0 (SQLITE_OK) is
  // SQLite's result code that stands in for it, and nothing is done. Set while nobody uses the catalog.
  void FailBy(std::function<int(const FileOp&)> before);

  struct Impl;  // what SQLite's calls need

 private:
  const std::unique_ptr<Impl> impl_;
};

}  // namespace inferscale
