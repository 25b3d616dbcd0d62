// KV records in memory, in one memfd that other processes may map read-only: docs/formats/hot_set.md.
//
// Each record lies in one contiguous range of whole pages, its 64-byte slot header first. Records that nobody pins are
// evicted, the least recently used first, when room is needed; bytes of a record that leaves are overwritten before the
// range is used again, so memory holds nothing of a record that is not in the set.
//
// Thread-safe. Pins and fills are made and released on any thread, and must be gone before the set is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/error.h"

namespace inferscale {

// How another process names a record's bytes: sent to it over a socket, checked by it before and after each copy.
struct HotSlot {
  uint64_t record = 0;
  uint64_t generation = 0;  // even; never the same for two contents of any place
  uint64_t offset = 0;      // of the slot header in the memfd, a multiple of 4,096; the bytes follow 64 later
  uint64_t bytes = 0;
  uint32_t version = 0;

  bool operator==(const HotSlot&) const = default;
};

struct HotSetStats {
  uint64_t budget_bytes = 0;  // pages of slots
  uint64_t used_bytes = 0;    // pages taken, slot headers and rounding included
  uint64_t pinned_bytes = 0;  // of them, by pins and fills
  uint64_t records = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t inserted = 0;
  uint64_t evicted = 0;  // to make room
  uint64_t wiped = 0;    // by Evict
  uint64_t refused = 0;  // no room between pinned records
};

class HotSetImpl;

// A record that stays where it is while this lives. Move-only.
class HotPin {
 public:
  HotPin(HotPin&& other) noexcept;
  HotPin& operator=(HotPin&& other) noexcept;
  ~HotPin();

  std::span<const std::byte> bytes() const { return bytes_; }  // 64-byte aligned
  const HotSlot& slot() const { return slot_; }

 private:
  friend class HotSetImpl;
  HotPin(HotSetImpl* set, const HotSlot& slot, std::span<const std::byte> bytes)
      : set_(set), slot_(slot), bytes_(bytes) {}
  HotSetImpl* set_ = nullptr;
  HotSlot slot_;
  std::span<const std::byte> bytes_;
};

// A place for a record's bytes, not visible to anybody until Publish: a disk read may go straight into it. Dropped
// without Publish, the place is wiped and free again. Move-only.
class HotFill {
 public:
  HotFill(HotFill&& other) noexcept;
  HotFill& operator=(HotFill&& other) noexcept;
  ~HotFill();

  std::span<std::byte> bytes() { return bytes_; }  // 64-byte aligned, zeros at first
  // The record is in the set, unless it got there otherwise or was evicted since Reserve: then the pin is on that one,
  // or on these bytes, which are wiped when it goes.
  HotPin Publish();

 private:
  friend class HotSetImpl;
  HotFill(HotSetImpl* set, uint64_t offset, std::span<std::byte> bytes) : set_(set), offset_(offset), bytes_(bytes) {}
  HotSetImpl* set_ = nullptr;
  uint64_t offset_ = 0;
  std::span<std::byte> bytes_;
};

class HotSet {
 public:
  // budget_bytes: rounded down to pages; memory is taken as it is used. kInvalidArgument: less than a page or more than
  // limits::kHotSetBytes. kNoSpace, kIo: the system has no memfd for us.
  static Result<std::unique_ptr<HotSet>> Create(uint64_t budget_bytes);
  virtual ~HotSet() = default;

  // The record, pinned, or nothing. A record number stands for one content: whoever changes it takes a new number.
  virtual std::optional<HotPin> Find(uint64_t record) = 0;

  // Room for a record, by evicting if need be. kTooLarge: larger than the set. kNoSpace: what is pinned leaves no
  // range of that size (nothing was evicted in vain).
  virtual Result<HotFill> Reserve(uint64_t record, uint32_t version, uint64_t bytes) = 0;
  // Reserve, copy, Publish.
  Result<HotPin> Put(uint64_t record, uint32_t version, std::span<const std::byte> bytes);

  // The record is not found any more, and a fill of it that is under way will not be. True: no byte of it is in memory.
  // False: a pin holds it, and the bytes are overwritten when the last pin is gone.
  virtual bool Evict(uint64_t record) = 0;
  // Evicts all.
  virtual bool Clear() = 0;

  // For sending to other processes, which can only map it read-only. Owned by the set.
  virtual int descriptor() const = 0;
  virtual uint64_t file_bytes() const = 0;
  virtual HotSetStats stats() const = 0;
};

}  // namespace inferscale
