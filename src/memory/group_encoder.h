// The records of one group: facts that share one causal pass behind what they all see. Only what is missing is
// computed; records that are there are injected at their original positions.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "core/types.h"
#include "engine/engine.h"

namespace inferscale {

struct FactGroup {
  Tokens stem;                    // header and what every fact of the group sees
  std::vector<Tokens> facts;      // in order: each sees those before it
  std::vector<bool> missing;      // [facts]
  bool keep_stem = false;         // the group will be extended: the engine may keep the stem's cells
  size_t pass_tokens = SIZE_MAX;  // of facts computed in one pass (one fact at least): answers wait for a pass
};

struct GroupHooks {
  // The record of a fact that is not missing. Null: it is not there after all, and is made again.
  std::function<Result<RecordHandle>(size_t place)> load;
  // A record was made; the handle is what later passes inject.
  std::function<Result<RecordHandle>(size_t place, KvPayload payload)> made;
  // Before each pass; false: leave the rest. May be null.
  std::function<bool()> go_on;
};

struct GroupStats {
  size_t made = 0;  // of those that were missing
  size_t fact_tokens = 0;
  size_t computed_tokens = 0;
};

Result<GroupStats> EncodeFactGroup(Engine& engine, const FactGroup& group, const GroupHooks& hooks);

}  // namespace inferscale
