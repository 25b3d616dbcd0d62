// The catalog's own checks: everything that is stored twice is compared.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_connection.h"

namespace inferscale::sqlite {

// Collects findings while a transaction runs. With repair, each check makes again what can be derived.
struct Fsck {
  Connection& db;
  bool repair = false;
  Micros now = 0;
  bool lost_rows = false;  // pages are damaged: where more was counted than is there, it was lost
  std::vector<FsckFinding> findings = {};

  void Report(std::string what, bool repaired);
  // Reports `count` of something, when there are any.
  void Count(uint64_t count, const std::string& what, bool repaired);
};

Status CheckDatabase(Fsck& fsck);  // SQLite's own: pages, indexes, references
Status CheckRows(Fsck& fsck);      // checksums of facts and turns, words of what is gone
Status CheckSearch(Fsck& fsck);    // vectors, terms, postings
Status CheckRecords(Fsck& fsck);   // KV rows against facts and what they saw; the queue
Status CheckCounters(Fsck& fsck);  // of the namespaces; last, since others change what is counted

}  // namespace inferscale::sqlite
