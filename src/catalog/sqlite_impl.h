// The class behind OpenSqliteCatalog. Its methods are grouped by subject into sqlite_<subject>.cc; each opens one
// transaction, calls free functions that work on a Connection, and commits.
#pragma once

#include <atomic>
#include <mutex>
#include <unordered_map>

#include "catalog/sqlite_catalog.h"
#include "catalog/sqlite_op.h"
#include "catalog/sqlite_pool.h"

namespace inferscale::sqlite {

class SqliteCatalog final : public Catalog {
 public:
  SqliteCatalog(std::unique_ptr<Pool> pool, SqliteOptions options);
  ~SqliteCatalog() override;

  Result<NamespaceId> OpenNamespace(std::string_view name) override;
  Result<NamespaceInfo> FindNamespace(std::string_view name) override;
  Result<NamespaceInfo> GetNamespace(NamespaceId ns) override;
  Result<std::vector<NamespaceInfo>> ListNamespaces(NamespaceId after, size_t limit) override;
  void Touch(NamespaceId ns) override;
  Result<DeleteResult> DeleteNamespace(NamespaceId ns) override;
  Result<AddResult> AddFacts(NamespaceId ns, std::span<const NewFact> facts, const AddOptions& options) override;
  Result<UpdateResult> UpdateFact(NamespaceId ns, std::string_view id, const FactUpdate& update) override;
  Result<DeleteResult> DeleteFacts(NamespaceId ns, std::span<const std::string> ids) override;
  Result<DeleteResult> DeleteAllFacts(NamespaceId ns) override;
  Result<Change> Supersede(NamespaceId ns, std::string_view old_id, std::string_view new_id) override;
  Result<DeleteResult> ExpireDue(size_t limit) override;
  Result<FactRow> GetFact(NamespaceId ns, std::string_view id) override;
  Result<std::vector<FactRow>> GetFacts(NamespaceId ns, std::span<const FactSeq> seqs) override;
  Result<std::vector<FactRow>> FindFacts(std::string_view id) override;
  Result<std::vector<FactRow>> GetParts(NamespaceId ns, FactSeq parent) override;
  Result<std::vector<FactRow>> ListFacts(NamespaceId ns, const ListOptions& options) override;
  Result<ScanStats> ScanFacts(NamespaceId ns, const ScanOptions& options,
                              const std::function<bool(const ScanRow&)>& row) override;
  Result<std::vector<HistoryEntry>> History(NamespaceId ns, std::string_view id) override;
  Result<PutTurnsResult> PutTurns(NamespaceId ns, std::span<const NewTurn> turns) override;
  Result<std::vector<TurnRow>> GetTurns(NamespaceId ns, uint64_t first, size_t count) override;
  Result<TurnRow> FindTurn(NamespaceId ns, std::string_view id) override;
  Status UseEmbedder(const EmbedderInfo& embedder) override;
  Result<std::optional<EmbedderInfo>> CurrentEmbedder() override;
  Status SwitchEmbedder(const EmbedderInfo& embedder) override;
  Result<std::vector<FactRow>> FactsToEmbed(FactSeq after, size_t limit) override;
  Status PutVectors(std::span<const FactVector> vectors) override;
  Result<std::vector<TermPostings>> Postings(NamespaceId ns, std::span<const std::string> terms, size_t cap) override;
  Result<std::vector<StoredRun>> LoadRuns(NamespaceId ns) override;
  Result<std::vector<StoredRun>> SaveRuns(NamespaceId ns, std::span<const FactRun> runs) override;
  Result<RecordSeq> ReserveRecords(size_t count) override;
  Result<PutRecordsResult> PutRecords(std::span<const KvRow> rows) override;
  Result<std::vector<KvRow>> UsableRecords(NamespaceId ns, const ModelKey& model_key,
                                           std::span<const FactSeq> facts) override;
  Result<uint64_t> CountWithoutKv(std::optional<NamespaceId> ns, const ModelKey& model_key) override;
  Status ScanRecords(const std::function<bool(const KvRow&)>& row) override;
  Result<Change> DropRecords(std::span<const RecordSeq> records, bool requeue) override;
  Result<std::vector<DeadRecord>> MoveRecords(std::span<const std::pair<RecordSeq, KvLocation>> moves) override;
  Result<std::vector<NamespaceInfo>> EvictionCandidates(size_t limit) override;
  Result<std::vector<KvRow>> RecordsOf(NamespaceId ns, size_t limit) override;
  Result<std::vector<DeadRecord>> PendingErase(size_t limit) override;
  Status ForgetErased(std::span<const uint64_t> erase_ids) override;
  Result<std::vector<QueueItem>> DueFacts(size_t limit) override;
  Result<std::vector<QueueItem>> QueuedFacts(NamespaceId ns) override;
  Status Enqueue(std::span<const FactSeq> facts, int32_t priority, Micros due_us) override;
  Result<uint64_t> EnqueueAll(NamespaceId ns) override;
  Status Dequeue(std::span<const FactSeq> facts) override;
  Status EncodeFailed(std::span<const FactSeq> facts, std::string_view error) override;
  Result<QueueCounts> CountQueue() override;
  Result<std::optional<std::string>> GetSetting(std::string_view key) override;
  Status SetSetting(std::string_view key, std::string_view value) override;
  Status Scrub() override;
  Result<std::vector<FsckFinding>> Fsck(bool repair) override;

 private:
  Micros Now() const { return options_.clock(); }
  // A write transaction, with the activity noted since the last one in it.
  Result<Pool::Writer> Write();
  // Runs body on an Op of the namespace, then Finish and commit; what changed.
  Result<Change> ChangeNamespace(NamespaceId ns, const std::function<Status(Op&)>& body);
  Status NoteActivity(Connection& db);

  const std::unique_ptr<Pool> pool_;
  const SqliteOptions options_;

  // Something was deleted or changed since the last Scrub, or before this process began.
  std::atomic<bool> has_residue_ = true;

  std::mutex reserve_mutex_;   // guards the next two; taken before the writer's turn
  RecordSeq next_record_ = 0;  // reserved in the file up to last_record_
  RecordSeq last_record_ = 0;

  std::mutex mutex_;                                // guards what follows
  std::unordered_map<NamespaceId, Micros> active_;  // Touch, not written yet
};

}  // namespace inferscale::sqlite
