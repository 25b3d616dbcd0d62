// Encoding: every fact of a set gets a KV record, from the cache or from the engine.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "engine/engine.h"
#include "memory/fact_set.h"
#include "memory/window_planner.h"
#include "store/record_cache.h"

namespace inferscale {

struct EncodeStats {
  size_t facts = 0;            // of the set
  size_t cached = 0;           // records that were there
  size_t encoded = 0;          // records made now
  size_t fact_tokens = 0;      // own tokens of the records made now
  size_t computed_tokens = 0;  // tokens the engine computed for them
  double seconds = 0;
  size_t failed = 0;  // facts that the engine could not encode, and why
  std::string last_error;
};

class Encoder {
 public:
  // All must outlive the encoder. header: the tokens every pass starts with.
  Encoder(Engine& engine, RecordCache& cache, const FactSet& facts, Tokens header, std::string name_space);

  // Makes the missing records of all groups; each is in the cache as soon as it is made, so that an interrupted run
  // goes on where it stopped. Then KeyOf is valid for every fact.
  Result<EncodeStats> Run(std::span<const WindowGroup> groups, WindowKind kind, const ProgressFn& progress);

  const RecordKey& KeyOf(size_t fact) const { return keys_[fact]; }

 private:
  void MakeKeys(const WindowGroup& group, WindowKind kind);
  Status EncodeGroup(const WindowGroup& group, const std::vector<bool>& missing, EncodeStats& stats);

  Engine& engine_;
  RecordCache& cache_;
  const FactSet& facts_;
  Tokens header_;
  std::string name_space_;
  std::vector<RecordKey> keys_;  // [facts]
};

}  // namespace inferscale
