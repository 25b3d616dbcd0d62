#!/usr/bin/env python3
"""Shows that the durable memory's tests fail when any one step of striking, checking or erasing is taken out.

  tests/memory_mutants.py BUILD_FOLDER [NAME…]

BUILD_FOLDER has memory_core_test built. Exits with 1 when a mutant survives. Takes about a minute a mutant.
"""
import catalog_mutants
import mutants

HISTORY = "MemoryPropertyTest.*"
ERASE = "MemoryEraseTest.*"
VAULT = "KvVault*"

# The queue, what is moved while it dies, records that arrive late, and the erase list of what is destroyed at once all
# the same: looked at by the catalog's histories only.
OF_THE_CATALOG_ALONE = ("superseded-leaves-queue", "stale-requeues", "move-erases", "clear-erases", "kill-erases",
                        "put-checks-own-version", "put-checks-own-expiry", "put-erases-refused")

# name, file, what is there, what replaces it, the tests that must fail
MUTANTS = [
    ("follow-destroys", "memory/memory.cc", "const Status destroyed = vault_->Destroy(change.dead);",
     "const Status destroyed;", f"{HISTORY}:{VAULT}"),
    ("put-destroys-refused", "memory/kv_vault.cc", "  TRY(Destroy(put.dead));\n", "", f"{HISTORY}:{VAULT}"),
    ("destroy-evicts-hot", "memory/kv_vault.cc", "    hot_->Evict(each.record);\n", "", ERASE),
    ("destroy-wipes-files", "memory/kv_vault.cc", "  TRY(store_->Destroy(stored));\n", "", ERASE),
    ("destroy-forgets", "memory/kv_vault.cc", "return catalog_.ForgetErased(entries);", "return {};", HISTORY),
    ("open-destroys-orphans", "memory/kv_vault.cc", "return store_->Destroy(orphans);", "return {};", VAULT),
    ("open-destroys-pending", "memory/kv_vault.cc", "  TRY(vault->DestroyPending());\n", "",
     VAULT),
    ("open-drops-lost", "memory/kv_vault.cc", "    TRY(catalog_.DropRecords(lost, true));\n", "",
     VAULT),
    ("failed-put-cleans", "memory/kv_vault.cc", "      (void)store_->Destroy(orphans);\n", "",
     VAULT),
    # The next two survive: the window between reading a row and reserving its place is not held open by any test.
    ("load-looks-again", "memory/kv_vault_load.cc", "if (!alive.contains(rows[i].record)) {",
     "if (alive.empty() && i > rows.size()) {", VAULT),
    ("load-evicts-dead", "memory/kv_vault_load.cc", "        hot_->Evict(rows[i].record);\n", "",
     VAULT),
    ("load-compares-tokens", "memory/kv_vault_load.cc",
     "std::equal(key.token_ids.begin(), key.token_ids.end(), wanted.tokens.begin(), wanted.tokens.end()) &&", "",
     VAULT),
    ("load-compares-version", "memory/kv_vault.cc",
     "row.content_version != wanted[place.at(row.fact)].version ||", "",
     VAULT),
    ("load-drops-damaged", "memory/kv_vault_load.cc",
     "  if (!reading.damaged.empty()) TRY(DropDamaged(reading.damaged));\n", "",
     VAULT),
    ("load-retries-moved", "memory/kv_vault_load.cc", "constexpr int kLoadAttempts = 3;",
     "constexpr int kLoadAttempts = 1;", "KvVaultRaceTest.Compaction*"),
    ("delete-scrubs", "memory/memory_forget.cc", "  if (result.deleted > 0) TRY(catalog_->Scrub());\n", "", ERASE),
    ("expiry-scrubs", "memory/memory_forget.cc", "  if (all.deleted > 0) TRY(catalog_->Scrub());\n", "", ERASE),
    ("namespace-scrubs", "memory/memory_forget.cc", "  TRY(Follow(result.change));\n  TRY(catalog_->Scrub());\n",
     "  TRY(Follow(result.change));\n", ERASE),
    ("index-removes", "memory/name_space_index.cc", "  index_.Remove(found->second);\n", "", f"{ERASE}:MemoryTest.*"),
    ("index-hides-superseded", "memory/name_space_index.cc", "    row.superseded = true;\n", "", "MemoryTest.*"),
    ("update-replaces-row", "memory/memory.cc", "    gone.removed.push_back(result.seq);\n", "", "MemoryTest.*"),
    ("update-hides-superseded", "memory/memory.cc", "    if (!now.superseded_by.empty())\n",
     "    if (false)\n", "MemoryTest.*"),
    ("payload-wipes", "core/payload_pool.cc", "  explicit_bzero(buffer, bytes);", "  (void)bytes;", ERASE),
    ("delete-clears", "base/clear_freed.cc", "if (!IsMapped(block)) explicit_bzero",
     "if (block == nullptr) explicit_bzero", ERASE),
]
# And each of the catalog's that its own random histories find.
MUTANTS += [(f"catalog-{name}", f"catalog/{source}", before, after, HISTORY)
            for name, source, before, after, tests in catalog_mutants.MUTANTS
            if tests == catalog_mutants.MODEL and name not in OF_THE_CATALOG_ALONE]

if __name__ == "__main__":
    mutants.main(__doc__, "memory_core_test", MUTANTS)
