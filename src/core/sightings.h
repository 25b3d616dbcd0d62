// Which application system texts came before: one is worth a place in the injected region from its second sighting on;
// one that changes with every request (dates, names) never is, and goes behind the facts.
#pragma once

#include <list>
#include <mutex>
#include <unordered_map>

#include "base/hash.h"

namespace inferscale {

// A bounded memory of what was seen, the longest unseen forgotten first. Thread-safe.
class Sightings {
 public:
  // capacity: how many different texts are remembered, at least 1.
  explicit Sightings(size_t capacity);

  // Counts one sighting of the text with this digest. True: it was seen before.
  bool SeenBefore(const Hash128& text);

 private:
  struct HashOf {
    size_t operator()(const Hash128& h) const { return static_cast<size_t>(h.low); }
  };

  const size_t capacity_;
  std::mutex mutex_;
  std::list<Hash128> recent_;  // newest first
  std::unordered_map<Hash128, std::list<Hash128>::iterator, HashOf> places_;
};

}  // namespace inferscale
