#include "store/recent_records.h"

#include <utility>

namespace inferscale {

RecordHandle RecentRecords::Find(const RecordId& id) {
  const auto found = places_.find(id);
  if (found == places_.end()) return nullptr;
  used_.splice(used_.begin(), used_, found->second);
  return found->second->record;
}

void RecentRecords::Keep(const RecordId& id, RecordHandle record) {
  const uint64_t bytes = record->payload.bytes();
  if (bytes > budget_bytes_ || Find(id) != nullptr) return;
  while (bytes_ + bytes > budget_bytes_) {
    const Entry& last = used_.back();
    bytes_ -= last.record->payload.bytes();
    places_.erase(last.id);
    used_.pop_back();
  }
  used_.push_front({id, std::move(record)});
  places_.emplace(id, used_.begin());
  bytes_ += bytes;
}

}  // namespace inferscale
