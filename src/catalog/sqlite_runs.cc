// Fact runs: a namespace's RunBook in rows. A run that did not change is recognised by its digest and not written.
#include <map>
#include <unordered_set>

#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"

namespace inferscale::sqlite {

namespace {

enum Role : int { kAnchor = 0, kMember = 1 };

void PackEntries(Packer& packer, const std::vector<RunFact>& facts) {
  packer.Varint(facts.size());
  for (const RunFact& fact : facts)
    packer.Str(fact.id).Varint(fact.version).Str(HashBlob(fact.digest)).Varint(fact.tokens);
}

std::string DigestOf(const FactRun& run) {
  Packer packer;
  packer.Varint(run.closed).Varint(run.side).Varint(run.anchor_chosen);
  PackEntries(packer, run.anchor);
  PackEntries(packer, run.members);
  return HashBlob(HashBytes(packer.bytes()));
}

struct StoredHead {
  uint32_t stale_count = 0;
  std::string digest;
  bool kept = false;
};

Result<std::map<int64_t, StoredHead>> Heads(Connection& db, NamespaceId ns) {
  std::map<int64_t, StoredHead> heads;
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT number, stale_count, digest FROM runs WHERE ns=?", ns));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return heads;
    heads[cursor.Int(0)] = {cursor.U32(1), std::string(cursor.Bytes(2)), false};
  }
}

// The number of the stored run that has one of these members, or 0. The first one that is known decides: members do not
// change runs while they are what they were.
Result<int64_t> NumberOf(Connection& db, NamespaceId ns, const std::vector<RunFact>& members) {
  for (const RunFact& fact : members) {
    TRY_ASSIGN(const auto run, db.Value("SELECT e.run FROM facts f JOIN run_entries e ON e.fact=f.seq AND e.role=1"
                                        " WHERE f.id=? AND f.ns=? AND e.version=?",
                                        std::string_view(fact.id), ns, fact.version));
    if (run) return *run;
  }
  return 0;
}

// Numbers grow in the order in which runs were opened: it is the order in which they are loaded. Where the given order
// differs, a run gets a new number.
Result<int64_t> ChooseNumber(Op& op, const FactRun& run, int64_t last, std::map<int64_t, StoredHead>& heads) {
  TRY_ASSIGN(const int64_t known, NumberOf(op.db, op.ns, run.members));
  const auto head = heads.find(known);
  if (head != heads.end() && !head->second.kept && known > last) {
    head->second.kept = true;
    return known;
  }
  TRY_ASSIGN(const auto next,
             op.db.Value("UPDATE namespaces SET next_run=next_run+1 WHERE id=? RETURNING next_run-1", op.ns));
  return next.value_or(0);
}

Status WriteEntries(Op& op, int64_t number, Role role, const std::vector<RunFact>& facts) {
  int64_t place = 0;
  for (const RunFact& fact : facts) {
    const std::string digest = HashBlob(fact.digest);
    TRY(
        op.db.Run("INSERT INTO run_entries(ns, run, role, place, fact, version, digest, tokens)"
                  " SELECT ns, ?, ?, ?, seq, ?, ?, ? FROM facts WHERE id=? AND ns=?",
                  number, static_cast<int>(role), place++, fact.version, Blob{digest}, fact.tokens,
                  std::string_view(fact.id), op.ns));
  }
  return {};
}

Status WriteRun(Op& op, int64_t number, uint32_t stale_count, const FactRun& run, const std::string& digest) {
  TRY(op.db.Run("DELETE FROM run_entries WHERE ns=? AND run=?", op.ns, number));
  TRY(
      op.db.Run("INSERT OR REPLACE INTO runs(ns, number, closed, side, anchor_chosen, stale_count, digest)"
                " VALUES(?,?,?,?,?,?,?)",
                op.ns, number, run.closed, run.side, run.anchor_chosen, stale_count, Blob{digest}));
  TRY(WriteEntries(op, number, kAnchor, run.anchor));
  return WriteEntries(op, number, kMember, run.members);
}

Status ReadEntries(Connection& db, NamespaceId ns, std::map<int64_t, StoredRun>& runs) {
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT e.run, e.role, f.id, e.version, e.digest, e.tokens FROM run_entries e"
                                     " JOIN facts f ON f.seq=e.fact WHERE e.ns=? ORDER BY e.run, e.role, e.place",
                                     ns));
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    const auto run = runs.find(cursor.Int(0));
    const auto digest = HashOfBlob(cursor.Bytes(4));
    if (run == runs.end() || !digest) continue;  // damaged: as if struck
    std::vector<RunFact>& facts = cursor.Int(1) == kMember ? run->second.run.members : run->second.run.anchor;
    facts.push_back({std::string(cursor.Text(2)), cursor.U32(3), *digest, cursor.U32(5)});
  }
}

}  // namespace

Result<std::vector<StoredRun>> SqliteCatalog::LoadRuns(NamespaceId ns) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  Connection& db = *reader;
  std::map<int64_t, StoredRun> runs;
  {
    TRY_ASSIGN(Cursor cursor,
               db.Query("SELECT number, closed, side, anchor_chosen, stale_count FROM runs WHERE ns=?", ns));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      StoredRun& run = runs[cursor.Int(0)];
      run.number = cursor.UInt(0);
      run.stale_count = cursor.U32(4);
      run.run.closed = cursor.Int(1) != 0;
      run.run.side = cursor.Int(2) != 0;
      run.run.anchor_chosen = cursor.U32(3);
    }
  }
  TRY(ReadEntries(db, ns, runs));
  std::vector<StoredRun> loaded;
  for (auto& [number, run] : runs)
    if (!run.run.members.empty()) loaded.push_back(std::move(run));
  return loaded;
}

Result<std::vector<StoredRun>> SqliteCatalog::SaveRuns(NamespaceId ns, std::span<const FactRun> runs) {
  std::vector<StoredRun> saved;
  const auto body = [&](Op& op) -> Status {
    TRY_ASSIGN(auto heads, Heads(op.db, ns));
    int64_t last = 0;
    std::vector<std::pair<size_t, std::string>> changed;
    for (const FactRun& run : runs) {
      TRY_ASSIGN(last, ChooseNumber(op, run, last, heads));
      const auto head = heads.find(last);
      std::string digest = DigestOf(run);
      if (head == heads.end() || head->second.digest != digest) changed.emplace_back(saved.size(), std::move(digest));
      saved.push_back({static_cast<uint64_t>(last), head == heads.end() ? 0 : head->second.stale_count, run});
    }
    for (const auto& [number, head] : heads) {
      if (head.kept) continue;
      TRY(op.db.Run("DELETE FROM run_entries WHERE ns=? AND run=?", ns, number));
      TRY(op.db.Run("DELETE FROM runs WHERE ns=? AND number=?", ns, number));
    }
    for (const auto& [i, digest] : changed)
      TRY(WriteRun(op, static_cast<int64_t>(saved[i].number), saved[i].stale_count, runs[i], digest));
    return {};
  };
  TRY(ChangeNamespace(ns, body));
  return saved;
}

}  // namespace inferscale::sqlite
