// The catalog: what must not be lost, and what decides whether KV may be used. Facts, turns, vectors, keyword terms,
// history, fact runs, KV rows, the encode queue, settings. SQLite: sqlite_catalog.h. Format: docs/formats/catalog.md.
//
// - Each call that changes something is one transaction: durable when it returns, or nothing changed. A crash between
//   calls loses nothing; there is no state outside the database that must agree with it but the store's bytes.
// - **Staleness.** A call that changes, deletes, expires or supersedes a fact or a turn takes, in its transaction,
// every
//   KV row of the namespace that saw it, and its own, off the usable ones, puts their locations on the erase list, and
//   queues the facts that lost a record and are still live. PutRecords refuses a record that is stale when it arrives.
//   So no usable row ever saw a text that is gone or changed, whatever order calls come in.
// - Thread-safe. Calls that change something take turns; readers do not wait for them, and see what was committed when
//   they began.
// - Text is bytes here: UTF-8, splitting, tokenising, filters are the caller's. No error message holds a fact's text.
// - Errors of all calls: kIo, kNoSpace, kCorrupt from the database; kInvalidArgument and kTooLarge for arguments beyond
//   base/limits.h; kNotFound where a namespace or fact is named that is not there. Others are named with the call.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"

namespace inferscale {

class Catalog {
 public:
  virtual ~Catalog() = default;

  // ---- Namespaces ----
  // The namespace of this name, made when it is not there.
  virtual Result<NamespaceId> OpenNamespace(std::string_view name) = 0;
  virtual Result<NamespaceInfo> FindNamespace(std::string_view name) = 0;  // kNotFound
  virtual Result<NamespaceInfo> GetNamespace(NamespaceId ns) = 0;
  // By id, those after `after`, at most limits::kListPage.
  virtual Result<std::vector<NamespaceInfo>> ListNamespaces(NamespaceId after, size_t limit) = 0;
  // Notes that the namespace is in use, for eviction. Kept in memory and written with the next change or on closing.
  virtual void Touch(NamespaceId ns) = 0;
  // The namespace with everything in it, history too. `change` holds the records only: the rows are all gone.
  virtual Result<DeleteResult> DeleteNamespace(NamespaceId ns) = 0;

  // ---- Facts ----
  // Adds facts in order, at most limits::kFactsPerBatch. Supersession by key or id happens in the same transaction.
  // kNotFound: supersedes an unknown fact. kMismatch: a vector of other dims than the embedder's. kConflict: the
  // idempotency key was used for other facts. A replay stores nothing, also of facts that were forgotten since.
  virtual Result<AddResult> AddFacts(NamespaceId ns, std::span<const NewFact> facts, const AddOptions& options) = 0;
  // Changes one fact (not a part). A new text or date is a new version: the fact's record, and those that saw it, are
  // stale; kInvalidArgument, with its id, when another live fact has them. Setting an expiry where there was none makes
  // those that saw it stale: such a fact is in nobody's window.
  virtual Result<UpdateResult> UpdateFact(NamespaceId ns, std::string_view id, const FactUpdate& update) = 0;
  // Deletes facts with their parts, vectors, terms, words in the history, and source turns that no other live fact has.
  // A part's id is kInvalidArgument and nothing is deleted. Any number of ids.
  virtual Result<DeleteResult> DeleteFacts(NamespaceId ns, std::span<const std::string> ids) = 0;
  // All facts and turns of the namespace; the namespace and its history's events stay.
  virtual Result<DeleteResult> DeleteAllFacts(NamespaceId ns) = 0;
  // Hides `old_id` from now on: `new_id` replaces it. Both must be there, and differ.
  virtual Result<Change> Supersede(NamespaceId ns, std::string_view old_id, std::string_view new_id) = 0;
  // Deletes facts, of all namespaces, whose expiry is not after now, as DeleteFacts does; at most `limit` a call.
  virtual Result<DeleteResult> ExpireDue(size_t limit) = 0;

  virtual Result<FactRow> GetFact(NamespaceId ns, std::string_view id) = 0;  // kCorrupt: the row is damaged
  // Those of `seqs` that are in the namespace and not damaged, in the order given.
  virtual Result<std::vector<FactRow>> GetFacts(NamespaceId ns, std::span<const FactSeq> seqs) = 0;
  // Facts of any namespace with this id: for routes that name no namespace.
  virtual Result<std::vector<FactRow>> FindFacts(std::string_view id) = 0;
  virtual Result<std::vector<FactRow>> GetParts(NamespaceId ns, FactSeq parent) = 0;  // in order
  // Facts as the application knows them (no parts), a page at a time, at most limits::kListPage.
  virtual Result<std::vector<FactRow>> ListFacts(NamespaceId ns, const ListOptions& options) = 0;
  // Calls `row` for each fact of the namespace until it returns false. It must not call the catalog.
  virtual Result<ScanStats> ScanFacts(NamespaceId ns, const ScanOptions& options,
                                      const std::function<bool(const ScanRow&)>& row) = 0;
  // Oldest first; also of a fact that was deleted. Empty: never heard of it.
  virtual Result<std::vector<HistoryEntry>> History(NamespaceId ns, std::string_view id) = 0;

  // ---- Turns ----
  // Adds turns or, where the id is there with other words, changes them (version + 1; records that saw them are stale).
  virtual Result<PutTurnsResult> PutTurns(NamespaceId ns, std::span<const NewTurn> turns) = 0;
  // Those with ordinal in [first, first + count), by ordinal.
  virtual Result<std::vector<TurnRow>> GetTurns(NamespaceId ns, uint64_t first, size_t count) = 0;
  virtual Result<TurnRow> FindTurn(NamespaceId ns, std::string_view id) = 0;  // kNotFound

  // ---- Search ----
  // Names the embedder that vectors are made with from now on. The first call stores it; later ones compare:
  // kMismatch names both and says what to do (`inferscale reembed`).
  virtual Status UseEmbedder(const EmbedderInfo& embedder) = 0;
  virtual Result<std::optional<EmbedderInfo>> CurrentEmbedder() = 0;
  // Another embedder: all facts are without a vector until PutVectors has them. Survives a crash half way.
  virtual Status SwitchEmbedder(const EmbedderInfo& embedder) = 0;
  // Whole facts and parts without a vector of the present embedder, over all namespaces, by seq after `after`.
  virtual Result<std::vector<FactRow>> FactsToEmbed(FactSeq after, size_t limit) = 0;
  // Replaces vectors and terms.
  virtual Status PutVectors(std::span<const FactVector> vectors) = 0;
  // [terms] Statistics of this namespace alone. A term that more than `cap` facts have is too common to be read.
  virtual Result<std::vector<TermPostings>> Postings(NamespaceId ns, std::span<const std::string> terms,
                                                     size_t cap) = 0;

  // ---- Fact runs ----
  virtual Result<std::vector<StoredRun>> LoadRuns(NamespaceId ns) = 0;  // in the order in which they were opened
  // Replaces the namespace's runs, in order; writes only what differs. A run keeps the number that one of its members
  // had. Entries of facts that are gone are left out. Returns number and stale count of each. [runs]
  virtual Result<std::vector<StoredRun>> SaveRuns(NamespaceId ns, std::span<const FactRun> runs) = 0;

  // ---- KV ----
  // The first of `count` ids in a row that nothing else ever gets.
  virtual Result<RecordSeq> ReserveRecords(size_t count) = 0;
  // Makes records usable whose bytes are durable in the store, and takes their facts off the queue. Each replaces the
  // one of the same fact and model key. One whose fact, or anything it saw, is gone, changed, superseded or has an
  // expiry (its own fact's expiry is none of these) is not stored: its location goes to the erase list.
  virtual Result<PutRecordsResult> PutRecords(std::span<const KvRow> rows) = 0;
  // Usable rows of these facts (all of the namespace when empty), in the order of `facts`.
  virtual Result<std::vector<KvRow>> UsableRecords(NamespaceId ns, const ModelKey& model_key,
                                                   std::span<const FactSeq> facts) = 0;
  // Live facts, of one namespace or of all, without a usable record of this model that are not queued either: their
  // records were dropped to make room, or were made for another model.
  virtual Result<uint64_t> CountWithoutKv(std::optional<NamespaceId> ns, const ModelKey& model_key) = 0;
  // All usable rows, by record: for the store to compare itself with.
  virtual Status ScanRecords(const std::function<bool(const KvRow&)>& row) = 0;
  // Not usable any more, for the store's own reasons: damaged (requeue: their facts are queued) or evicted. Unknown ids
  // are skipped.
  virtual Result<Change> DropRecords(std::span<const RecordSeq> records, bool requeue) = 0;
  // New places after a compaction. A record that is not usable any more gets its new place on the erase list too, and
  // is returned.
  virtual Result<std::vector<DeadRecord>> MoveRecords(std::span<const std::pair<RecordSeq, KvLocation>> moves) = 0;
  // Namespaces with usable records, least recently active first.
  virtual Result<std::vector<NamespaceInfo>> EvictionCandidates(size_t limit) = 0;
  // Usable rows of one namespace, oldest record first.
  virtual Result<std::vector<KvRow>> RecordsOf(NamespaceId ns, size_t limit) = 0;
  // The erase list, oldest first: bytes to be destroyed, also after a restart.
  virtual Result<std::vector<DeadRecord>> PendingErase(size_t limit) = 0;
  virtual Status ForgetErased(std::span<const uint64_t> erase_ids) = 0;  // their bytes are destroyed

  // ---- Encode queue ----
  // Due items by (priority, namespace, order day, arrival).
  virtual Result<std::vector<QueueItem>> DueFacts(size_t limit) = 0;
  virtual Result<std::vector<QueueItem>> QueuedFacts(NamespaceId ns) = 0;  // due or not, in the same order
  // Queues facts, or changes their place when they are queued: the larger priority and the earlier instant count.
  // Parents, superseded and unknown facts are skipped.
  virtual Status Enqueue(std::span<const FactSeq> facts, int32_t priority, Micros due_us) = 0;
  virtual Result<uint64_t> EnqueueAll(NamespaceId ns) = 0;  // every live fact of the namespace; how many
  virtual Status Dequeue(std::span<const FactSeq> facts) = 0;
  // An attempt failed: due again after limits::kEncodeBackoffMicros doubled for each attempt, up to a cap.
  virtual Status EncodeFailed(std::span<const FactSeq> facts, std::string_view error) = 0;
  virtual Result<QueueCounts> CountQueue() = 0;

  // ---- Settings, erasure, checks ----
  virtual Result<std::optional<std::string>> GetSetting(std::string_view key) = 0;
  virtual Status SetSetting(std::string_view key, std::string_view value) = 0;
  // After this no byte of what was deleted before is in any file of the catalog. Waits for running reads.
  virtual Status Scrub() = 0;
  // Compares everything that is stored twice. Empty: all agree. repair: what can be derived is made again.
  virtual Result<std::vector<FsckFinding>> Fsck(bool repair) = 0;
};

}  // namespace inferscale
