// The parts of a hot set. hot_set.h is what others use.
#pragma once

#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <unordered_map>

#include "store/hot_set.h"
#include "store/hot_set_format.h"
#include "store/range_allocator.h"

namespace inferscale {

class HotSetImpl final : public HotSet {
 public:
  HotSetImpl(int descriptor, std::byte* map, uint64_t file_bytes);
  ~HotSetImpl() override;

  std::optional<HotPin> Find(uint64_t record) override;
  Result<HotFill> Reserve(uint64_t record, uint32_t version, uint64_t bytes) override;
  bool Evict(uint64_t record) override;
  bool Clear() override;
  int descriptor() const override { return descriptor_; }
  uint64_t file_bytes() const override { return file_bytes_; }
  HotSetStats stats() const override;

  // For pins and fills. offset: of the slot.
  void Unpin(uint64_t offset);
  HotPin Publish(uint64_t offset);
  void Abandon(uint64_t offset);

 private:
  struct Slot {
    uint64_t record = 0;
    uint64_t bytes = 0;
    uint64_t generation = 0;
    uint32_t version = 0;
    uint32_t pins = 0;                  // a fill counts as one
    bool ready = false;                 // published
    bool doomed = false;                // evicted: found by nobody, wiped with the last pin
    std::list<uint64_t>::iterator use;  // in lru_, while there are no pins
    uint64_t extent() const { return SlotExtent(bytes); }
  };
  using Slots = std::map<uint64_t, Slot>;  // by offset in the file

  static uint64_t SlotExtent(uint64_t bytes) {
    return (kHotSlotHeaderBytes + bytes + kHotPageBytes - 1) / kHotPageBytes * kHotPageBytes;
  }

  // All with mutex_ held.
  Slots::iterator FindReady(uint64_t record);
  HotPin Pin(Slots::iterator slot);
  void Fix(Slots::iterator slot);
  void Unfix(Slots::iterator slot);
  bool CanMakeRoom(uint64_t extent) const;
  Result<uint64_t> TakeRange(uint64_t extent);
  void WipeAndFree(Slots::iterator slot);
  bool Doom(Slots::iterator slot);
  uint64_t NextOdd() { return (last_generation_ += 2) - 1; }

  HotSlotHeader& HeaderAt(uint64_t offset) const { return *reinterpret_cast<HotSlotHeader*>(map_ + offset); }
  std::span<std::byte> BytesAt(uint64_t offset, uint64_t bytes) const {
    return {map_ + offset + kHotSlotHeaderBytes, bytes};
  }

  // Constant after construction.
  const int descriptor_;
  std::byte* const map_;
  const uint64_t file_bytes_;

  mutable std::mutex mutex_;  // guards what follows, and the slot headers
  RangeAllocator ranges_;     // of the file behind its first page
  Slots slots_;
  std::unordered_multimap<uint64_t, uint64_t> places_;  // record -> offset, of all slots
  std::list<uint64_t> lru_;                             // offsets without pins, least recently used first
  std::map<uint64_t, uint64_t> fixed_;                  // offset -> extent, of pinned slots
  uint64_t last_generation_ = 0;                        // even
  HotSetStats stats_;
};

}  // namespace inferscale
