// The durable memory: facts of namespaces in one data folder, searchable the moment `Remember` returns, with KV records
// in a store beside them. No engine is needed here; encoding and answering take one (fact_encoder.h, memory_source.h).
//
//   <data>/lock            one owning process
//   <data>/catalog.db      what must not be lost (docs/formats/catalog.md)
//   <data>/kv/             segments: derived, safe to delete (docs/formats/segment.md)
//
// Every change is one catalog transaction, durable when the call returns. After it, in this order: the vectors in
// memory follow, bytes of records that became stale are destroyed, the erase list forgets them. A crash in between is
// repaired by the next Open, from the erase list.
//
// Thread-safe. Errors of all calls: those of the catalog (catalog.h) and of the embedder.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/dir_lock.h"
#include "base/error.h"
#include "base/limits.h"
#include "catalog/catalog.h"
#include "embed/embedder.h"
#include "memory/fact_input.h"
#include "memory/kv_vault.h"
#include "memory/name_space_index.h"

namespace inferscale {

struct MemoryOptions {
  std::filesystem::path data_folder;   // made when it is not there, mode 0700
  std::string command = "inferscale";  // what a second process is told: no user's text
  // Folders, `encoding` and `files` are set by Open. Budgets are kept for the folder; 0: as they were kept, or the
  // defaults.
  KvVaultOptions kv;
  std::optional<KvEncoding> kv_encoding;  // of new records, kept for the folder; nothing: as it was kept, or f16
  size_t index_bytes = limits::kIndexCacheBytes;
  bool any_embedder = false;  // open though the stored vectors are of another embedder: for Reembed
  bool check_pages = true;    // false: open though pages of the catalog are damaged: for Fsck
  std::string vfs;            // for tests: SQLite's VFS, the store's files, and the time of day
  FileOps* files = nullptr;
  std::function<Micros()> clock;  // null: the system's
};

struct RememberOptions {
  std::string idempotency_key;  // the same key and facts again: the first call's result, nothing changed
  Micros encode_delay_us = limits::kEncodeDelayMicros;  // from now; 0: the facts may be encoded at once
};

struct RecallOptions {
  size_t top_k = 10;
  std::string filter;              // JSON (docs/filters.md), or empty
  std::optional<float> threshold;  // of the score; what is below is not returned
  bool superseded = false;         // also facts that a newer one replaced
  bool parts_as_parents = false;   // a part of a long fact is shown as that fact, once
};

struct RecallHit {
  FactRow fact;
  float score = 0;  // fused, 0..1
  float cosine = 0;
  float keyword = 0;  // BM25, or 0: no common term
};

struct MemoryStats {
  uint64_t facts = 0;
  uint64_t namespaces = 0;
  uint64_t records = 0;                       // usable
  std::map<KvEncoding, uint64_t> records_as;  // of them
  KvEncoding kv_encoding = KvEncoding::kF16;  // of new ones
  uint64_t kv_bytes = 0;                      // of usable records
  uint64_t kv_file_bytes = 0;
  uint64_t kv_budget_bytes = 0;
  uint64_t kv_namespace_budget_bytes = 0;  // that of the folder, if none was set
  uint64_t erase_pending = 0;
  QueueCounts queue;
};

class Memory {
 public:
  // embedder outlives the memory; null: for calls that neither add, change nor search (forget, list, export, fsck).
  // kInUse: another process owns the folder. kMismatch: the vectors are of another embedder. kVersionUnsupported.
  // kCorrupt: the catalog is damaged or lost, which no call makes good by a new one.
  static Result<std::unique_ptr<Memory>> Open(const MemoryOptions& options, Embedder* embedder);
  // Whether there is one in the folder, or was, and what is left of it. Changes nothing.
  static bool IsIn(const std::filesystem::path& folder);
  ~Memory();

  // Adds facts in order, all or none. Long texts become linked parts. Exact duplicates return the id that is there.
  // [facts] Errors name the fact by its place: "fact 3: …". At most limits::kFactsPerBatch.
  Result<AddResult> Remember(std::string_view name_space, std::span<const FactInput> facts,
                             const RememberOptions& options = {});
  struct Update {
    std::optional<std::string> text;
    std::optional<std::optional<Date>> date;
    std::optional<std::optional<Micros>> expires_us;
    std::optional<std::string> metadata;
    std::optional<uint32_t> expected_version;  // kConflict when the fact has another one
    Micros encode_delay_us = limits::kEncodeDelayMicros;
  };
  Result<UpdateResult> UpdateFact(std::string_view name_space, std::string_view id, const Update& update);
  Result<PutTurnsResult> PutTurns(std::string_view name_space, std::span<const NewTurn> turns);

  // The best live facts, best first: cosine and BM25 fused; filters, expiry and supersession apply before the best are
  // chosen. An unknown namespace has no facts. kInvalidArgument: a filter that is wrong, with its path. kTooLarge: more
  // than limits::kTopKMax are asked for.
  Result<std::vector<RecallHit>> Recall(std::string_view name_space, std::string_view query,
                                        const RecallOptions& options);
  // The same, for a query that is embedded already. [dim]
  Result<std::vector<RecallHit>> Recall(std::string_view name_space, std::string_view query,
                                        std::span<const float> vector, const RecallOptions& options);

  // Each returns when the facts are gone from every file and from this process's memory, KV included.
  Result<DeleteResult> Forget(std::string_view name_space, std::span<const std::string> ids);
  Result<DeleteResult> ForgetWhere(std::string_view name_space, std::string_view filter);
  Result<DeleteResult> ForgetNamespace(std::string_view name_space);
  Result<DeleteResult> ForgetExpired();
  Status Supersede(std::string_view name_space, std::string_view old_id, std::string_view new_id);

  // Ids of the live facts that a filter selects, in order of arrival.
  Result<std::vector<std::string>> Select(std::string_view name_space, std::string_view filter);

  Result<MemoryStats> Stats();
  // Compares catalog, vectors, terms, runs and KV records; repairs what can be.
  Result<std::vector<FsckFinding>> Fsck(bool repair);
  // Makes all vectors and terms anew with the present embedder. done of total.
  Status Reembed(const std::function<void(size_t, size_t)>& progress);

  // Called after facts changed or went, with what did: engines wipe what they hold of them. One listener; it must not
  // call the memory.
  void SetChangeListener(std::function<void(const Change&)> listener);

  // The namespace of this name; kNotFound.
  Result<NamespaceInfo> Find(std::string_view name_space) { return catalog_->FindNamespace(name_space); }

  Catalog& catalog() { return *catalog_; }
  KvVault& vault() { return *vault_; }
  Embedder* embedder() { return embedder_; }
  const std::filesystem::path& folder() const { return folder_; }

 private:
  Memory() = default;
  Status NeedEmbedder() const;
  // Vectors and terms for texts: dates are part of what is searched for.
  Result<FactContent> Split(std::string text, std::optional<Date> date) const;
  Status FillSearchData(std::span<FactContent> contents);
  Status FillSearchData(std::span<const std::string> texts, std::span<SearchData* const> data);
  Result<UpdateResult> UpdateOnce(NamespaceId ns, std::string_view id, const Update& update);
  // Deletes by `commit`, then everything that must follow.
  Result<DeleteResult> Delete(NamespaceId ns, const std::function<Result<DeleteResult>()>& commit);
  // After a commit and the index: bytes of dead records, then the listener.
  Status Follow(const Change& change);
  Result<std::vector<RecallHit>> ToHits(NamespaceId ns, std::span<const IndexHit> found, const RecallOptions& options);
  Micros Now() const { return clock_ ? clock_() : NowMicros(); }

  std::filesystem::path folder_;
  std::optional<DirLock> lock_;
  Embedder* embedder_ = nullptr;
  std::function<Micros()> clock_;
  std::unique_ptr<Catalog> catalog_;
  std::unique_ptr<KvVault> vault_;
  std::unique_ptr<NameSpaceIndexCache> indexes_;
  std::mutex listener_mutex_;
  std::function<void(const Change&)> listener_;
};

}  // namespace inferscale
