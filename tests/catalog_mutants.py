#!/usr/bin/env python3
"""Shows that the catalog's tests fail when any one step of striking or erasing is taken out.

  tests/catalog_mutants.py BUILD_FOLDER [NAME…]

BUILD_FOLDER has catalog_test built. Each mutant is one changed source, compiled and linked beside it; nothing in the
checkout or the build folder changes. Exits with 1 when a mutant survives. Takes about 20 s a mutant.
"""
import mutants

MODEL = "SqliteModelTest.*"

# name, file, what is there, what replaces it, the tests that must fail
MUTANTS = [
    ("delete-strikes", "sqlite_delete.cc", "TRY(MakeStale(op, gone));", "", MODEL),
    ("delete-takes-turns", "sqlite_delete.cc", "gone.turns.insert(static_cast<TurnSeq>(*seq))", "", MODEL),
    ("clear-strikes", "sqlite_delete.cc", "TRY(KillAllRecords(op));", "", MODEL),
    ("clear-erases", "sqlite_delete.cc",
     "for (const DeadRecord& each : dead) TRY(EraseLater(op.db, each, op.change.dead));", "", MODEL),
    ("update-strikes", "sqlite_update.cc",
     "TRY_ASSIGN(const Gone gone, GoneWithParts(op, row));\n  TRY(MakeStale(op, gone));", "", MODEL),
    ("expiry-strikes", "sqlite_update.cc", "gone.own = false;\n  return MakeStale(op, gone);", "return {};", MODEL),
    ("parts-are-struck", "sqlite_rows.cc", "    seqs.push_back(cursor.UInt(0));\n", "", MODEL),
    ("supersede-strikes", "sqlite_update.cc", "return hidden.empty() ? Status() : MakeStale(op, gone);",
     "return Status();", MODEL),
    ("add-strikes-superseded", "sqlite_add.cc", "return MakeStale(op_, gone);", "return {};", MODEL),
    ("superseded-leaves-queue", "sqlite_add.cc", 'TRY(op.db.Run("DELETE FROM queue WHERE fact=?", seq));', "", MODEL),
    ("turn-strikes", "sqlite_turns.cc", "if (!same) gone.turns.insert(turn.seq);", "", MODEL),
    ("own-record", "sqlite_stale.cc", "!fits || is_own || SawOneOf(row, gone)", "!fits || SawOneOf(row, gone)", MODEL),
    ("seen-record", "sqlite_stale.cc", "!fits || is_own || SawOneOf(row, gone)", "!fits || is_own", MODEL),
    ("kill-erases", "sqlite_stale.cc", "return EraseLater(op.db, dead, op.change.dead);", "return {};", MODEL),
    ("stale-requeues", "sqlite_stale.cc", "if (!gone.own || !gone.facts.contains(fact)) TRY(Requeue(op, fact));",
     "(void)fact;", MODEL),
    ("stale-counts", "sqlite_stale.cc", "for (const FactSeq fact : entries) TRY(collect(fact, 0));", "",
     "SqliteRunsTest.*"),
    ("put-checks-own-version", "sqlite_kv.cc", "if (!own || *own != row.content_version) return false;",
     "if (!own) return false;", MODEL),
    ("put-checks-own-expiry", "sqlite_kv.cc", "(expires_us IS NULL OR expires_us>?)", "?>0", MODEL),
    ("put-checks-seen-version", "sqlite_kv.cc", "version == 0 || version != seen.version", "version == 0", MODEL),
    ("put-checks-seen-superseded", "sqlite_kv.cc", '" AND superseded_by IS NULL AND expires_us IS NULL"',
     '" AND expires_us IS NULL"', MODEL),
    ("put-checks-seen-expiry", "sqlite_kv.cc", '" AND superseded_by IS NULL AND expires_us IS NULL"',
     '" AND superseded_by IS NULL"', MODEL),
    ("put-erases-refused", "sqlite_kv.cc",
     "if (!fresh) return EraseLater(op_.db, {0, row.record, op_.ns, row.fact, row.location}, result_.dead);",
     "if (!fresh) return {};", MODEL),
    ("put-drops-older", "sqlite_kv.cc", "TRY(DropRecord(op_, static_cast<RecordSeq>(*older), false));",
     'TRY(op_.db.Run("DELETE FROM kv WHERE record=?", *older));', MODEL),
    ("move-erases", "sqlite_kv_store.cc", "if (db.changes() == 0) TRY(EraseLater(db, {0, record, 0, 0, to}, dead));",
     "", MODEL),
    ("commit-syncs", "sqlite_connection.cc", "PRAGMA synchronous=FULL", "PRAGMA synchronous=NORMAL",
     "SqliteCrashTest.*"),
    ("scrub-wipes", "sqlite_settings.cc", "return WipeUnusedSpace(db);", "return {};", "SqliteErasureTest.*"),
    ("scrub-checkpoints", "sqlite_settings.cc", "TRY(db.EmptyLog());  // it holds pages as they were", "",
     "SqliteErasureTest.*"),
    ("pages-are-checked", "page_check_vfs.cc", "? SQLITE_OK : SQLITE_IOERR_DATA;", "? SQLITE_OK : SQLITE_OK;",
     "SqlitePageDamageTest.*"),
    ("damage-stays-marked", "page_check_vfs.cc", "keep_damage ? ~sum : sum", "(void(keep_damage), sum)",
     "SqlitePageDamageTest.*"),
    ("new-is-in-its-file", "sqlite_schema.cc", "  TRY(connection.EmptyLog());\n  return have > 0 ?",
     "  return have > 0 ?", "SqliteLostTest.*"),
    ("log-before-trust", "sqlite_fsck.cc",
     "TRY(db.EmptyLog());  // while what it says of a page counts: a power cut leaves pages half written that it has"
     " whole", "", "SqliteCrashTest.*"),
    ("secure-delete", "sqlite_connection.cc", "PRAGMA secure_delete=ON", "PRAGMA secure_delete=OFF",
     "SqliteErasureTest.*"),
    ("delete-clears-history", "sqlite_delete.cc",
     """TRY(op.db.Run("UPDATE history SET old_text=NULL WHERE ns=? AND fact=? AND old_text IS NOT NULL", op.ns,
                std::string_view(fact.id)));""", "", "SqliteErasureTest.*"),
    ("delete-takes-words", "sqlite_terms.cc",
     'if (left && *left <= 0) TRY(op.db.Run("DELETE FROM terms WHERE id=?", term.term));', "", "SqliteErasureTest.*"),
    ("new-connections", "sqlite_pool.cc", "if (status) status = Replace();", "", "SqliteErasureTest.NoMemory*"),
    ("sqlite-clears", "sqlite_memory.cc", "clearing.xFree = ClearingFree;", "", "SqliteErasureTest.NoMemory*"),
]


if __name__ == "__main__":
    mutants.main(__doc__, "catalog_test", [(name, f"catalog/{source}", *rest) for name, source, *rest in MUTANTS])
