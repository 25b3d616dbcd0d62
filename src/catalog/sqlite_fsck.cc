#include "catalog/sqlite_fsck.h"

#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_rows.h"

namespace inferscale::sqlite {

namespace {

// SQLite's messages of one pragma; they name tables, pages and row numbers, no values.
Result<std::vector<std::string>> Messages(Connection& db, std::string_view pragma) {
  TRY_ASSIGN(Cursor cursor, db.Query(pragma));
  std::vector<std::string> messages;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return messages;
    if (cursor.Text(0) != "ok") messages.emplace_back(cursor.Text(0));
  }
}

Status CheckReferences(Fsck& fsck) {
  struct Orphans {
    std::string_view table, what;
    std::string_view count, remove;
  };
  constexpr Orphans kOrphans[] = {
      {"fact_index", "vectors without their fact",
       "SELECT count(*) FROM fact_index WHERE seq NOT IN (SELECT seq FROM facts)",
       "DELETE FROM fact_index WHERE seq NOT IN (SELECT seq FROM facts)"},
      {"queue", "queued facts that are not there",
       "SELECT count(*) FROM queue WHERE fact NOT IN (SELECT seq FROM facts)",
       "DELETE FROM queue WHERE fact NOT IN (SELECT seq FROM facts)"},
      {"run_entries", "entries of fact runs without their fact",
       "SELECT count(*) FROM run_entries WHERE fact NOT IN (SELECT seq FROM facts)",
       "DELETE FROM run_entries WHERE fact NOT IN (SELECT seq FROM facts)"},
      {"facts", "parts without their long fact",
       "SELECT count(*) FROM facts WHERE part_of IS NOT NULL AND part_of NOT IN (SELECT seq FROM facts)", ""},
      {"facts", "facts without their namespace",
       "SELECT count(*) FROM facts WHERE ns NOT IN (SELECT id FROM namespaces)", ""},
      {"history", "words of facts that are gone in the history",
       "SELECT count(*) FROM history h WHERE old_text IS NOT NULL AND NOT EXISTS"
       " (SELECT 1 FROM facts f WHERE f.id=h.fact AND f.ns=h.ns)",
       "UPDATE history SET old_text=NULL WHERE old_text IS NOT NULL AND NOT EXISTS"
       " (SELECT 1 FROM facts f WHERE f.id=history.fact AND f.ns=history.ns)"},
  };
  for (const Orphans& orphans : kOrphans) {
    TRY_ASSIGN(const auto count, fsck.db.Value(orphans.count));
    const bool repair = fsck.repair && !orphans.remove.empty();
    fsck.Count(static_cast<uint64_t>(count.value_or(0)), std::string(orphans.what), repair);
    if (repair && count.value_or(0) > 0) TRY(fsck.db.Run(orphans.remove));
  }
  return {};
}

// As `forget` takes it. A damaged row's own columns may be wrong: its number is right.
Result<std::string> NameOf(Connection& db, const FactRow& row) {
  TRY_ASSIGN(Cursor names,
             db.Query("SELECT coalesce(p.id, f.id), n.name FROM facts f LEFT JOIN facts p ON p.seq=f.part_of"
                      " LEFT JOIN namespaces n ON n.id=f.ns WHERE f.seq=?",
                      row.seq));
  TRY_ASSIGN(const bool found, names.Next());
  if (!found) return "fact number " + std::to_string(row.seq);
  return "fact " + QuotedId(names.Text(0)) + " of namespace " + QuotedId(names.Text(1));
}

Status CheckFacts(Fsck& fsck) {
  TRY_ASSIGN(Cursor cursor, fsck.db.Query("SELECT " INFERSCALE_FACT_COLUMNS ", f.hash FROM facts f ORDER BY f.seq"));
  FactRow row;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    const bool whole = ReadFact(cursor, row);
    if (whole && cursor.Bytes(kFactColumns) == HashBlob(ContentHash(row.text, row.date))) continue;
    TRY_ASSIGN(const std::string name, NameOf(fsck.db, row));
    fsck.Report(name + " is damaged: forget it, or restore a copy", false);
  }
}

Status CheckTurns(Fsck& fsck) {
  TRY_ASSIGN(Cursor cursor, fsck.db.Query("SELECT seq, id, ordinal, speaker, text, date, version, sum, ns FROM turns"));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    TurnRow turn;
    if (!ReadTurn(cursor, cursor.Int(8), turn))
      fsck.Report("turn number " + std::to_string(turn.seq) + " is damaged: give it again", false);
  }
}

// Old words that are not what they were are worth nothing; the event stays.
Status CheckHistory(Fsck& fsck) {
  struct Key {
    int64_t ns = 0, n = 0;
    std::string fact;
  };
  std::vector<Key> damaged;
  {
    TRY_ASSIGN(Cursor cursor, fsck.db.Query("SELECT ns, n, fact, old_text FROM history WHERE old_text IS NOT NULL"));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      Key key{cursor.Int(0), cursor.Int(1), std::string(cursor.Text(2))};
      if (!UnsealText(HistoryKey(key.ns, key.fact, key.n), cursor.Bytes(3))) damaged.push_back(std::move(key));
    }
  }
  fsck.Count(damaged.size(), "former texts in the history are damaged and lost", fsck.repair);
  if (!fsck.repair) return {};
  for (const Key& key : damaged)
    TRY(fsck.db.Run("UPDATE history SET old_text=NULL WHERE ns=? AND fact=? AND n=?", key.ns,
                    std::string_view(key.fact), key.n));
  return {};
}

// Noted on opening. Said once more when it is put right, since nothing brings the changes back.
Status CheckLogNote(Fsck& fsck) {
  TRY_ASSIGN(const auto noted, fsck.db.Value("SELECT 1 FROM settings WHERE key='log_damage'"));
  if (!noted) return {};
  fsck.Report("changes before a crash may be lost: the log was damaged or gone at the next start", false);
  return fsck.repair ? fsck.db.Run("DELETE FROM settings WHERE key='log_damage'") : Status();
}

Status CheckNames(Fsck& fsck) {
  TRY_ASSIGN(Cursor names, fsck.db.Query("SELECT id, name, sum FROM namespaces"));
  for (;;) {
    TRY_ASSIGN(const bool more, names.Next());
    if (!more) break;
    if (SumOfName(names.Text(1)) != names.Int(2))
      fsck.Report("the name of namespace number " + std::to_string(names.Int(0)) + " is damaged: restore a copy",
                  false);
  }
  // All but the catalog's own, so that a damaged name is seen too.
  constexpr size_t kPrefix = 5;  // "user."
  TRY_ASSIGN(
      Cursor settings,
      fsck.db.Query(
          "SELECT key, value FROM settings WHERE key NOT IN ('made_by', 'schema_sum', 'next_record', 'log_damage')"));
  uint64_t damaged = 0;
  for (;;) {
    TRY_ASSIGN(const bool more, settings.Next());
    if (!more) break;
    const std::string_view key = settings.Text(0);
    damaged += UnsealText(key.substr(std::min(key.size(), kPrefix)), settings.Bytes(1)) ? 0 : 1;
  }
  fsck.Count(damaged, "settings are damaged: set them again", false);
  return {};
}

}  // namespace

void Fsck::Report(std::string what, bool repaired) {
  if (findings.size() < limits::kFsckFindings) findings.push_back({std::move(what), repaired});
}

void Fsck::Count(uint64_t count, const std::string& what, bool repaired) {
  if (count > 0) Report(std::to_string(count) + " " + what, repaired);
}

Status CheckDatabase(Fsck& fsck) {
  TRY_ASSIGN(std::vector<std::string> messages, Messages(fsck.db, "PRAGMA integrity_check"));
  bool repaired = false;
  if (!messages.empty() && fsck.repair) {
    // Indexes are derived from their tables; damaged tables are not.
    (void)fsck.db.Run("REINDEX");
    TRY_ASSIGN(const std::vector<std::string> left, Messages(fsck.db, "PRAGMA integrity_check"));
    repaired = left.empty();
  }
  for (std::string& message : messages) fsck.Report("database: " + std::move(message), repaired);
  return CheckReferences(fsck);
}

Status CheckRows(Fsck& fsck) {
  TRY(CheckLogNote(fsck));
  TRY(CheckNames(fsck));
  TRY(CheckFacts(fsck));
  TRY(CheckTurns(fsck));
  return CheckHistory(fsck);
}

Status CheckCounters(Fsck& fsck) {
  static constexpr std::string_view kTrue =
      " facts=(SELECT count(*) FROM facts f WHERE f.ns=n.id AND f.kind<>2),"
      " searchable=(SELECT count(*) FROM facts f JOIN fact_index i ON i.seq=f.seq WHERE f.ns=n.id),"
      " words=(SELECT coalesce(sum(f.words), 0) FROM facts f JOIN fact_index i ON i.seq=f.seq WHERE f.ns=n.id),"
      " turns=(SELECT count(*) FROM turns t WHERE t.ns=n.id),"
      " kv_bytes=(SELECT coalesce(sum(bytes), 0) FROM kv WHERE kv.ns=n.id)";
  // The same row twice, before and after: what differs was wrong.
  TRY(fsck.db.Script("SAVEPOINT counters"));
  TRY(fsck.db.Script(
      "CREATE TEMP TABLE before AS SELECT id, facts, searchable, words, turns, kv_bytes FROM main.namespaces"));
  const std::string update = "UPDATE main.namespaces AS n SET" + std::string(kTrue);
  TRY(fsck.db.Script(update.c_str()));
  {
    TRY_ASSIGN(const auto wrong,
               fsck.db.Value("SELECT count(*) FROM (SELECT id, facts, searchable, words, turns, kv_bytes FROM"
                             " main.namespaces EXCEPT SELECT * FROM temp.before)"));
    fsck.Count(static_cast<uint64_t>(wrong.value_or(0)), "namespaces with wrong counts", fsck.repair);
    TRY_ASSIGN(const auto lost, fsck.db.Value("SELECT sum(max(b.facts - n.facts, 0) + max(b.turns - n.turns, 0))"
                                              " FROM main.namespaces n JOIN temp.before b ON b.id=n.id"));
    if (fsck.lost_rows)
      fsck.Count(static_cast<uint64_t>(lost.value_or(0)), "facts and turns are missing: restore a copy", false);
  }
  if (!fsck.repair) TRY(fsck.db.Script("ROLLBACK TO counters"));
  TRY(fsck.db.Script("RELEASE counters"));
  return fsck.db.Script("DROP TABLE IF EXISTS temp.before");
}

namespace {

Status CheckAll(Fsck& fsck) {
  TRY_ASSIGN(Transaction transaction, Transaction::Begin(fsck.db, true));
  TRY(CheckDatabase(fsck));
  TRY(CheckRows(fsck));
  TRY(CheckSearch(fsck));
  TRY(CheckRecords(fsck));
  TRY(CheckCounters(fsck));
  return fsck.repair ? transaction.Commit() : Status();  // or it rolls back
}

// All pages anew: what can be read of them gets checksums that fit. What was wrong in them is named by the checks
// before. False: SQLite cannot read so far.
bool RewritePages(Connection& db) {
  Status status = db.ReadPages(PageMode::kMend);
  if (status) status = db.Script("VACUUM");
  if (status) status = db.EmptyLog();
  return status.has_value();
}

// With pages read as they are; `pages`: what is said of those that are damaged.
Status CheckPagesAndAll(Fsck& fsck) {
  TRY_ASSIGN(const std::vector<uint32_t> damaged, DamagedPages(fsck.db.db()));
  fsck.lost_rows = !damaged.empty();
  TRY(CheckAll(fsck));
  if (damaged.empty()) return {};
  const bool repaired = fsck.repair && RewritePages(fsck.db);
  fsck.Report(std::to_string(damaged.size()) + " pages of the database are damaged, the first is number " +
                  std::to_string(damaged.front()),
              repaired);
  return {};
}

}  // namespace

Result<std::vector<FsckFinding>> SqliteCatalog::Fsck(bool repair) {
  std::vector<FsckFinding> findings;
  const Status status = pool_->Alone([&](Connection& db) -> Status {
    TRY(db.EmptyLog());  // while what it says of a page counts: a power cut leaves pages half written that it has whole
    TRY(db.ReadPages(PageMode::kTrust));
    sqlite::Fsck fsck{db, repair, Now()};
    Status checked = CheckPagesAndAll(fsck);
    findings = std::move(fsck.findings);
    const Status back = db.ReadPages(options_.check_pages ? PageMode::kCheck : PageMode::kTrust);
    return checked ? back : checked;
  });
  if (!status) return tl::unexpected<Error>(status.error());
  if (repair) has_residue_ = true;
  return findings;
}

}  // namespace inferscale::sqlite
