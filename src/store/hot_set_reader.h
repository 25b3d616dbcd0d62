// The other side of a hot set: a read-only map of its memfd in a process that does not own it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "store/hot_set.h"

namespace inferscale {

// Thread-safe.
class HotSetReader {
 public:
  // descriptor: of the memfd, as received; not kept. kCorrupt, kVersionUnsupported: not a hot set of ours. kIo.
  static Result<std::unique_ptr<HotSetReader>> Map(int descriptor);
  ~HotSetReader();
  HotSetReader(const HotSetReader&) = delete;
  HotSetReader& operator=(const HotSetReader&) = delete;

  // Copies the record's bytes; into: slot.bytes long. kMismatch: the slot holds something else by now, at the start or
  // at the end of the copy; `into` is undefined then. kInvalidArgument: a slot outside the map.
  Status Copy(const HotSlot& slot, std::span<std::byte> into) const;

  // For copies by other means (a GPU): where the bytes are, and whether they (still) are the slot's: asked before the
  // copy begins and after it has ended.
  std::span<const std::byte> BytesOf(const HotSlot& slot) const;
  bool Holds(const HotSlot& slot) const;

 private:
  HotSetReader(std::byte* map, uint64_t bytes) : map_(map), bytes_(bytes) {}
  std::byte* map_;
  uint64_t bytes_;
};

}  // namespace inferscale
