// A checksum for every page of the database file. SQLite has none: a flipped bit in an index page would hide rows
// without a word. SQLite leaves room for one (sqlite_page.h); a thin layer below it fills and checks it.
//
// - Written when a whole page is written to the main database file. In WAL mode that is a checkpoint, which a crash
//   cannot leave half done: the log still has the pages. The log itself has SQLite's own checksums (sqlite_log.h).
// - Checked when a whole page is read from there. What does not fit is SQLITE_IOERR_DATA, which is kCorrupt.
// - Files without (before schema 2) are read and written as they are; which kind a file is, its header says.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace inferscale::sqlite {

// Of one connection's file.
enum class PageMode : uint8_t {
  kCheck,
  kTrust,  // damaged pages are read as they are. Where one of them is written again, its checksum is made not to fit,
           // so that no damage becomes unseen
  kMend,   // as kTrust, but what is written fits: for pages that were all made anew
};

// The name of a VFS that does this on top of another one (empty: the default one). Registered at the first call for
// `base`, until the process ends; `base` must live as long as anybody uses the name.
Result<std::string> PageCheckVfs(const std::string& base);

// Of a connection made by PageCheckVfs's name. SQLite's cache of pages is for the caller to drop.
Status SetPageMode(sqlite3* db, PageMode mode);

// Reads all pages of a file whose log is empty: the numbers of those that do not fit their checksum. kCorrupt is not
// among the errors.
Result<std::vector<uint32_t>> DamagedPages(sqlite3* db);

// Whether the file has checksums.
Result<bool> HasPageSums(sqlite3* db);

}  // namespace inferscale::sqlite
