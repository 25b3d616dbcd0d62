// The searchable rows of one namespace in memory: vectors, and what decides whether a row may be found. Loaded from the
// catalog when a namespace is first searched, kept up to date by every change, dropped when memory is short.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "catalog/catalog.h"
#include "index/exact_index.h"

namespace inferscale {

// What a search is asked for. [dims] vector: unit length.
struct IndexQuery {
  std::span<const float> vector;
  std::span<const std::string> terms;  // QueryTerms; empty: cosine alone
  size_t top_k = 0;
  std::optional<float> threshold;
  bool superseded = false;                               // those too
  std::function<bool(const FactRow&)> filter = nullptr;  // null: no filter
};

struct IndexHit {
  FactSeq fact = 0;
  float score = 0.0f, cosine = 0.0f, keyword = 0.0f;  // FusedHit's
};

// Thread-safe: searches run side by side, changes wait for those that run and are not overtaken by new ones.
class NameSpaceIndex {
 public:
  NameSpaceIndex(NamespaceId ns, uint32_t dims) : ns_(ns), index_(dims) {}

  // Reads the namespace. Call once, before anything else.
  Status Load(Catalog& catalog);

  // The best live rows, best first. now: rows that expire until then are not found.
  Result<std::vector<IndexHit>> Search(Catalog& catalog, const IndexQuery& query, Micros now) const;

  // Rows that were committed. Duplicates of rows that are there are skipped.
  Status Add(FactSeq fact, std::span<const float> vector, uint32_t words, std::optional<Micros> expires_us);
  void Apply(const Change& change);
  void SetExpiry(FactSeq fact, std::optional<Micros> expires_us);

  size_t bytes() const;  // of memory, for the cache's budget
  size_t live() const;

 private:
  struct Row {
    FactSeq fact = 0;
    Micros expires_us = 0;  // kNever: it does not
    uint32_t words = 0;
    bool superseded = false;
  };
  class Terms;
  // Readers and writers take turns: a writer that waits keeps new readers out (glibc's lock alone would starve it).
  std::shared_lock<std::shared_mutex> LockToRead() const;
  std::unique_lock<std::shared_mutex> LockToWrite();

  bool MayBeFound(const Row& row, const IndexQuery& query, Micros now) const;
  Result<std::optional<RowMask>> Mask(Catalog& catalog, const IndexQuery& query, Micros now) const;
  void Remove(FactSeq fact);

  NamespaceId ns_;
  mutable std::mutex gate_;
  mutable std::shared_mutex mutex_;
  ExactIndex index_;
  std::vector<Row> rows_;  // [index_.size()]
  std::unordered_map<FactSeq, uint32_t> row_of_;
  size_t masked_ = 0;  // live rows that have an expiry or are superseded: without any, no mask is made
};

// Indexes by namespace, the most recently used ones within a budget of bytes. Thread-safe.
class NameSpaceIndexCache {
 public:
  NameSpaceIndexCache(Catalog& catalog, uint32_t dims, size_t budget_bytes)
      : catalog_(catalog), dims_(dims), budget_bytes_(budget_bytes) {}

  // The namespace's index, loaded if need be.
  Result<std::shared_ptr<NameSpaceIndex>> Get(NamespaceId ns);

  // Runs `commit`, which changes the catalog, then `apply` on the index if it is in memory. Meanwhile the index is not
  // loaded, so that no load sees half of a change. Changes of one namespace take turns.
  Status Change(NamespaceId ns, const std::function<Status()>& commit,
                const std::function<Status(NameSpaceIndex&)>& apply);
  // The same for a commit that may change any namespace.
  Status ChangeAny(const std::function<Status()>& commit, const std::function<Status(NameSpaceIndex&)>& apply);

  void Clear(uint32_t dims);  // drops all; later ones have vectors of `dims`
  size_t bytes() const { return bytes_; }

 private:
  struct Entry {
    std::mutex mutex;  // held by changes and by the load
    std::shared_ptr<NameSpaceIndex> index;
    size_t bytes = 0;                // counted in bytes_
    std::atomic<uint64_t> used = 0;  // clock_ when last asked for
  };
  std::shared_ptr<Entry> EntryOf(NamespaceId ns);
  void Count(Entry& entry);
  void Follow(Entry& entry, const std::function<Status(NameSpaceIndex&)>& apply);
  void Shrink();

  Catalog& catalog_;
  uint32_t dims_;
  size_t budget_bytes_;
  std::shared_mutex any_mutex_;  // shared: one namespace; alone: all of them
  std::mutex map_mutex_;
  std::unordered_map<NamespaceId, std::shared_ptr<Entry>> entries_;  // 100 bytes for each that was ever used
  uint64_t clock_ = 0;
  std::atomic<size_t> bytes_ = 0;
};

}  // namespace inferscale
