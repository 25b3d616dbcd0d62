// KV records that were read lately, in memory: a budget of bytes, the least recently used leave.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

#include "core/kv_record.h"

namespace inferscale {

// Not thread-safe. A record that leaves lives on as long as somebody holds its handle.
class RecentRecords {
 public:
  explicit RecentRecords(uint64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  // Null: it is not here.
  RecordHandle Find(const RecordId& id);
  // record: not null. One that is larger than the budget is not kept.
  void Keep(const RecordId& id, RecordHandle record);
  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    RecordId id;
    RecordHandle record;
  };
  const uint64_t budget_bytes_;
  uint64_t bytes_ = 0;
  std::list<Entry> used_;  // most recently used first
  std::unordered_map<RecordId, std::list<Entry>::iterator> places_;
};

}  // namespace inferscale
