// The catalog in one SQLite file: WAL, synced at every commit, deleted content overwritten.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "catalog/catalog.h"

namespace inferscale {

struct SqliteOptions {
  int readers = 0;                     // read connections, made as needed; 0: limits::kCatalogReaders
  std::string vfs;                     // name of a registered SQLite VFS; empty: the default one
  std::function<Micros()> clock;       // null: the system's
  std::string program = "inferscale";  // noted in the file, for the message that a newer version wrote it
  bool secure_delete = true;           // false only in the test that shows what it is for
  bool was_used = false;               // the folder is no new one: a catalog that is missing or empty was lost
  bool check_pages = true;             // false: also when pages are damaged, as far as they can be read, for Fsck
};

struct SqliteOpenReport {
  // The process before this one crashed, and since then its log was damaged or lost: what it had acknowledged last may
  // be lost.
  // Fsck says so too, until it repairs.
  bool changes_lost = false;
  // It did crash: bytes of what it was deleting may still be in the files until Scrub.
  bool unclean = false;
};

// Opens or makes `folder`/catalog.db; a new one is in its file, durable, on return, mode 0600. The caller owns the
// folder (base/dir_lock.h): no other process uses the file. kVersionUnsupported: a newer version made it; the message
// says which. kCorrupt: not a catalog, or damaged, or lost; then no file is changed. kPermission, kNoSpace, kIo.
Result<std::unique_ptr<Catalog>> OpenSqliteCatalog(const std::filesystem::path& folder, SqliteOptions options = {},
                                                   SqliteOpenReport* report = nullptr);

}  // namespace inferscale
