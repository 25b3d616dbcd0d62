#!/usr/bin/env python3
"""Shows that the catalog's tests fail when any one step of striking or erasing is taken out.

  tests/catalog_mutants.py BUILD_FOLDER [NAME…]

BUILD_FOLDER has catalog_test built. Each mutant is one changed source, compiled and linked beside it; nothing in the
checkout or the build folder changes. Exits with 1 when a mutant survives. Takes about 20 s a mutant.
"""
import json
import pathlib
import shlex
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "src" / "catalog"
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
    ("scrub-checkpoints", "sqlite_settings.cc", "PRAGMA wal_checkpoint(TRUNCATE)", "SELECT 0", "SqliteErasureTest.*"),
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


def commands(build):
    """The compile command of each source, and the link command of catalog_test."""
    database = json.loads((build / "compile_commands.json").read_text())
    compile_of = {}
    for entry in database:
        if "inferscale_catalog.dir" in entry["command"]:
            compile_of[pathlib.Path(entry["file"]).name] = entry
    link = subprocess.run(["ninja", "-C", build, "-t", "commands", "catalog_test"], check=True, capture_output=True,
                          text=True).stdout.splitlines()[-1]
    return compile_of, link.replace(": && ", "", 1).split(" && ")[0]


def survives(build, compile_of, link, mutant, folder):
    _, name, before, after, tests = mutant
    text = (SOURCE / name).read_text()
    if text.count(before) != 1:
        raise SystemExit(f"{name} has {text.count(before)} times: {before}")
    source, obj, exe = folder / name, folder / "mutant.o", folder / "catalog_test"
    source.write_text(text.replace(before, after))
    command = shlex.split(compile_of[name]["command"])
    command[command.index("-o") + 1] = str(obj)
    command[command.index("-c") + 1] = str(source)
    command += ["-Wno-error", "-w"]
    subprocess.run(command, check=True, cwd=compile_of[name]["directory"])
    words = shlex.split(link)
    words[words.index("-o") + 1] = str(exe)
    # Ahead of the library, whose own object is not needed then.
    words.insert(words.index("-o") + 2, str(obj))
    subprocess.run(words, check=True, cwd=build)
    run = subprocess.run([exe, f"--gtest_filter={tests}", "--gtest_brief=1"], capture_output=True, text=True)
    return run.returncode == 0


def main():
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    build, wanted = pathlib.Path(sys.argv[1]).resolve(), set(sys.argv[2:])
    compile_of, link = commands(build)
    alive = []
    for mutant in MUTANTS:
        if wanted and mutant[0] not in wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            lives = survives(build, compile_of, link, mutant, pathlib.Path(folder))
        print(f"{'SURVIVES' if lives else 'found':8}  {mutant[0]}", flush=True)
        alive += [mutant[0]] if lives else []
    sys.exit(1 if alive else 0)


if __name__ == "__main__":
    main()
