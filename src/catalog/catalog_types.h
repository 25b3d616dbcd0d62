// What a catalog stores and returns: plain values, owned by whoever holds them. Rules and errors: catalog.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/date.h"
#include "core/fact_run.h"
#include "core/kv_record.h"
#include "core/types.h"

namespace inferscale {

using NamespaceId = int64_t;  // of a name; never reused, so that nothing outlives a deleted namespace by accident
using FactSeq = uint64_t;     // arrival order over all namespaces, from 1 on; never reused
using TurnSeq = uint64_t;     // the same for turns
using RecordSeq = uint64_t;   // of a KV record; never reused, also across restarts

// Instants are microseconds since 1970-01-01 00:00 UTC.
using Micros = int64_t;

// A text over limits::kFactPartTokens is a parent, which keeps the whole text and is not searched or encoded itself,
// and parts, which are. Applications know whole facts and parents; ids of parts are "ID#1", "ID#2", …
enum class FactKind : uint8_t { kWhole = 0, kParent = 1, kPart = 2 };

// Ids a fact was stored with, to filter by. Empty: none.
struct FactScope {
  std::string user_id;
  std::string agent_id;
  std::string run_id;
  std::string app_id;

  bool operator==(const FactScope&) const = default;
};

struct TermCount {
  std::string term;
  uint32_t count = 1;  // how often it is in the text

  bool operator==(const TermCount&) const = default;
};

// What search needs of one text.
struct SearchData {
  std::vector<float> vector;     // [dims of the embedder]
  std::vector<TermCount> terms;  // distinct
  uint32_t words = 0;            // the text's length for BM25
};

struct NewPart {
  std::string text;
  SearchData search;
};

struct FactContent {
  std::string text;
  std::optional<Date> date;
  SearchData search;           // empty when there are parts
  std::vector<NewPart> parts;  // of a long text, in order
};

struct NewFact {
  std::string id;  // empty: a UUID is made
  FactContent content;
  std::optional<Date> order_day;  // the day that orders an undated fact; none: its date, or today (UTC)
  std::optional<Micros> expires_us;
  std::string metadata;  // a JSON object as text, or empty; stored as it is
  FactScope scope;
  std::string turn;           // id of its source turn, or empty
  std::string supersede_key;  // live facts of the namespace with the same key are superseded by this one; or empty
  std::vector<std::string> supersedes;  // ids of facts that this one replaces; an unknown one is kNotFound
};

enum class AddOutcome : uint8_t {
  kAdded = 0,
  kDuplicate = 1,  // a live fact of the namespace has this text and date: `id` is its id, nothing was changed
  kIdTaken = 2,    // another fact has this id: nothing was changed
  kForgotten = 3,  // of a replay: the first call's fact was deleted since
};

struct AddedFact {
  AddOutcome outcome = AddOutcome::kAdded;
  std::string id;
  FactSeq seq = 0;
  uint32_t version = 1;
  std::vector<FactSeq> parts;  // in order; empty for a duplicate

  bool operator==(const AddedFact&) const = default;
};

// Where a record's bytes are in the store.
struct KvLocation {
  uint64_t segment = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool operator==(const KvLocation&) const = default;
};

// A record that is not usable any more; its bytes are to be destroyed.
struct DeadRecord {
  uint64_t erase_id = 0;  // of the entry in the erase list: ForgetErased takes it
  RecordSeq record = 0;
  NamespaceId name_space = 0;
  FactSeq fact = 0;
  KvLocation location;
};

// What an operation changed beside what it was asked for: for the index in memory, the store and live plans.
struct Change {
  std::vector<FactSeq> removed;     // rows that are gone, parts included
  std::vector<FactSeq> superseded;  // rows that are hidden from now on, parts included
  std::vector<TurnSeq> turns;       // source turns that went with them
  std::vector<DeadRecord> dead;     // records made stale; on the erase list since the same transaction
  std::vector<FactSeq> requeued;    // live facts that lost a record and are queued again
};

struct AddOptions {
  std::string idempotency_key;       // or empty; the same key and facts again return the first call's result.
                                     // Only a digest of it is stored
  std::optional<Micros> due_us = 0;  // when the new facts may be encoded; nullopt: they are not queued
};

struct AddResult {
  std::vector<AddedFact> facts;  // [facts given]
  bool replayed = false;         // the idempotency key was known: nothing was changed
  Change change;
};

// nullopt in each field: leave as it is.
struct FactUpdate {
  std::optional<FactContent> content;               // the same text and date as before: not a change
  std::optional<std::optional<Micros>> expires_us;  // optional(nullopt) clears it
  std::optional<std::string> metadata;              // replaces all of it
  std::optional<uint32_t> expected_version;         // kConflict when the fact has another one
  std::optional<Micros> due_us = 0;                 // as in AddOptions
};

struct UpdateResult {
  FactSeq seq = 0;
  uint32_t version = 0;
  bool content_changed = false;
  std::vector<FactSeq> parts;  // the new ones; the old ones are in change.removed
  Change change;
};

struct DeleteResult {
  uint64_t deleted = 0;              // facts as the application knows them: a parent and its parts are one
  std::vector<std::string> missing;  // ids asked for that are not there
  Change change;
};

// A fact as stored.
struct FactRow {
  FactSeq seq = 0;
  NamespaceId name_space = 0;
  std::string id;
  uint32_t version = 1;  // goes up with each change of text or date
  FactKind kind = FactKind::kWhole;
  FactSeq part_of = 0;  // the parent's, or 0
  std::string text;
  std::optional<Date> date;
  Date order_day;
  Micros created_us = 0;
  Micros updated_us = 0;
  std::optional<Micros> expires_us;
  std::string metadata;
  FactScope scope;
  std::string turn;
  std::string supersede_key;
  std::string superseded_by;  // id, or empty: not superseded
  uint32_t words = 0;
};

// One row of a scan, valid during the callback only.
struct ScanRow {
  const FactRow& fact;
  std::span<const float> vector;  // empty: not asked for, a parent, damaged, or not made yet by the present embedder
};

struct ScanOptions {
  bool with_vector = false;
  FactSeq after = 0;      // rows with a larger seq only
  bool parents = false;   // rows of kParent too; the others always
  bool by_order = false;  // by (order day, arrival, part) as windows need it; else by seq
};

// Each stored fact, and each vector, has a checksum. What does not pass is left out and counted here; Fsck names it.
struct ScanStats {
  uint64_t rows = 0;
  uint64_t damaged_facts = 0;
  uint64_t damaged_vectors = 0;
};

struct ListOptions {
  FactSeq after = 0;  // the last seq of the page before; 0: the first page
  size_t limit = 100;
  bool newest_first = false;
  bool superseded = false;  // these too
  bool expired = false;     // these too, as long as they are not collected
};

struct NamespaceInfo {
  NamespaceId id = 0;
  std::string name;
  Micros created_us = 0;
  Micros last_active_us = 0;
  uint64_t facts = 0;       // as the application knows them, superseded ones too
  uint64_t searchable = 0;  // rows with postings: whole facts and parts; the N of BM25
  uint64_t words = 0;       // of those rows
  uint64_t turns = 0;
  uint64_t generation = 0;  // goes up with every change of facts or turns
  uint64_t kv_bytes = 0;    // of usable records
};

enum class HistoryEvent : uint8_t { kAdd = 0, kUpdate = 1, kDelete = 2, kExpire = 3, kSupersede = 4 };

struct HistoryEntry {
  HistoryEvent event = HistoryEvent::kAdd;
  Micros at_us = 0;
  // Words of an add or update; nullopt where the fact was deleted since (or the event has none).
  std::optional<std::string> old_text;
  std::optional<std::string> new_text;
};

struct NewTurn {
  std::string id;
  std::optional<uint64_t> ordinal;  // none: after the last one
  std::string speaker;
  std::string text;
  std::optional<Date> date;
};

struct TurnRow {
  TurnSeq seq = 0;
  std::string id;
  uint64_t ordinal = 0;
  std::string speaker;
  std::string text;
  std::optional<Date> date;
  uint32_t version = 1;
};

struct PutTurnsResult {
  std::vector<TurnSeq> turns;  // [turns given]
  uint64_t added = 0;
  uint64_t changed = 0;  // the id was there with other words
  Change change;
};

struct Posting {
  FactSeq fact = 0;
  uint32_t count = 0;

  bool operator==(const Posting&) const = default;
};

struct TermPostings {
  uint64_t facts = 0;             // of the namespace that have the term, superseded ones too
  bool too_common = false;        // more than the cap: postings are left out
  std::vector<Posting> postings;  // by seq
};

struct EmbedderInfo {
  std::string name;  // for people: the model's file or URL
  Hash128 key;       // digest of weights and tokenizer (Embedder::key)
  uint32_t dims = 0;

  bool operator==(const EmbedderInfo&) const = default;
};

// What search needs of a stored fact or part, made anew.
struct FactVector {
  FactSeq fact = 0;
  uint32_t version = 1;  // not stored when the fact has another one by now
  SearchData search;
};

enum class SeenKind : uint8_t { kFact = 0, kTurn = 1 };

// One text that a record has seen, beside its own.
struct Seen {
  SeenKind kind = SeenKind::kFact;
  uint64_t seq = 0;  // FactSeq or TurnSeq
  uint32_t version = 1;

  bool operator==(const Seen&) const = default;
};

// A KV record's row. Token ids and payload are in the store.
struct KvRow {
  RecordSeq record = 0;
  NamespaceId name_space = 0;
  FactSeq fact = 0;
  uint32_t content_version = 1;
  ModelKey model_key;
  KvEncoding encoding = KvEncoding::kF16;
  Hash128 calibration_id;
  Hash128 window_digest;
  uint32_t n_tokens = 0;
  KvLocation location;
  std::vector<Seen> saw;
};

struct PutRecordsResult {
  std::vector<bool> stored;      // [rows given]; false: stale before it arrived, its location is in `dead`
  std::vector<DeadRecord> dead;  // those, and the older records that were replaced
};

// A fact run as stored. The catalog gives numbers and counts staleness.
struct StoredRun {
  uint64_t number = 0;       // in its namespace, never reused
  uint32_t stale_count = 0;  // goes up whenever a record of one of its members is made stale
  FactRun run;
};

struct QueueItem {
  FactSeq fact = 0;
  NamespaceId name_space = 0;
  Micros added_us = 0;
  Micros due_us = 0;
  uint32_t attempts = 0;
  int32_t priority = 0;  // larger first
  std::string last_error;
};

struct QueueCounts {
  uint64_t queued = 0;
  uint64_t due = 0;
  uint64_t failing = 0;  // with at least one failed attempt
};

struct FsckFinding {
  std::string what;       // one sentence, without a fact's words
  bool repaired = false;  // only with repair, and where it can be derived
};

}  // namespace inferscale
