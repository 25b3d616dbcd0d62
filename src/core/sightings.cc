#include "core/sightings.h"

#include "base/assert.h"

namespace inferscale {

Sightings::Sightings(size_t capacity) : capacity_(capacity) { INFERSCALE_ASSERT(capacity > 0); }

bool Sightings::SeenBefore(const Hash128& text) {
  const std::lock_guard lock(mutex_);
  if (const auto it = places_.find(text); it != places_.end()) {
    recent_.splice(recent_.begin(), recent_, it->second);
    return true;
  }
  if (recent_.size() == capacity_) {
    places_.erase(recent_.back());
    recent_.pop_back();
  }
  recent_.push_front(text);
  places_.emplace(text, recent_.begin());
  return false;
}

}  // namespace inferscale
