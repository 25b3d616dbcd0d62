// KV records in device memory, ready for the inject kernel: a cache of the hot set with an explicit budget, one
// allocation cut into slabs. Records that nobody has pinned leave in the order of their last use when room is needed.
// Bytes of a record that leaves are overwritten, so the memory holds nothing of a record that is not in the arena.
//
// Copies to it run beside the compute stream and are ordered with it by events; nothing here waits for the device
// except Finish and the destructor.
//
// Thread-safe. Leases are released on any thread, and must be gone before the arena is.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "store/arena_memory.h"
#include "store/range_allocator.h"

namespace inferscale {

// A record in host memory. The arena knows it by stamp.id; another version or generation is another content.
struct ArenaRecord {
  kernels::RecordStamp stamp;
  const uint8_t* payload = nullptr;  // 16-byte aligned, and `bytes` a multiple of 16
  uint64_t bytes = 0;
  const kernels::RecordStamp* origin = nullptr;  // ArenaLoad
};

// For kernels::KvSource: expected is the record's stamp, and there is no origin to check.
struct ArenaSlot {
  uint8_t* payload = nullptr;  // on the device; null: there was no room
  const kernels::RecordStamp* stamp = nullptr;
};

struct ArenaStats {
  uint64_t budget_bytes = 0;
  uint64_t used_bytes = 0;    // slabs taken
  uint64_t pinned_bytes = 0;  // of them
  uint64_t records = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t loaded_bytes = 0;
  uint64_t evicted = 0;  // to make room
  uint64_t wiped = 0;    // by Evict and Clear
  uint64_t refused = 0;  // no room between pinned records
};

class KvArena;

// Records that stay where they are while this lives. Move-only. It ends (destructor) after the last launch that reads
// them has been given to the compute stream: their memory is not written before that launch is over.
class ArenaLease {
 public:
  ArenaLease() = default;
  ArenaLease(ArenaLease&& other) noexcept;
  ArenaLease& operator=(ArenaLease&& other) noexcept;
  ~ArenaLease();

  // In the order of the records asked for.
  std::span<const ArenaSlot> slots() const { return slots_; }

 private:
  friend class KvArena;
  void Release();
  KvArena* arena_ = nullptr;
  std::vector<uint64_t> pins_;  // offsets
  std::vector<ArenaSlot> slots_;
};

class KvArena {
 public:
  explicit KvArena(std::unique_ptr<ArenaMemory> memory);
  ~KvArena();
  KvArena(const KvArena&) = delete;
  KvArena& operator=(const KvArena&) = delete;

  // Pins the records; those that are missing are copied in one batch, and what is given to the compute stream from now
  // on sees them. A record that finds no room has no payload in the lease: take it from host memory, or as text. An
  // error: nothing is pinned, and the records that were to be loaded are not in the arena.
  Result<ArenaLease> Acquire(std::span<const ArenaRecord> records);

  // Copies what is missing and fits, ahead of its use.
  Status Prefetch(std::span<const ArenaRecord> records);

  // The record, in any version, is not found any more. True: its bytes are overwritten before anything that is given to
  // the arena's stream from now on; Finish says when. False: a lease has it, and they are when the last one ends.
  Result<bool> Evict(const uint64_t (&id)[2]);
  Result<bool> Clear();

  Status Finish();

  ArenaStats stats() const;

 private:
  friend class ArenaLease;
  struct Id {
    uint64_t words[2];
    bool operator==(const Id&) const = default;
  };
  struct IdHash {
    size_t operator()(const Id& id) const { return id.words[0] ^ id.words[1]; }  // ids are hashes
  };
  struct Slot {
    kernels::RecordStamp stamp;
    uint64_t extent = 0;  // bytes of its slabs
    uint64_t mark = 0;    // of the last use, ArenaMemory::MarkUses; 0: never used
    uint32_t pins = 0;
    bool doomed = false;                  // found by nobody, wiped with the last pin
    std::list<uint64_t>::iterator use{};  // in lru_, while there are no pins
  };
  using Slots = std::map<uint64_t, Slot>;  // by offset

  // All with mutex_ held.
  Result<uint64_t> TakeRange(uint64_t extent);
  bool CanMakeRoom(uint64_t extent) const;
  Result<uint64_t> Place(const ArenaRecord& record, std::vector<ArenaLoad>& loads);
  Status AcquireAll(std::span<const ArenaRecord> records, ArenaLease& lease);
  Slots::iterator Find(const ArenaRecord& record);
  void Pin(Slots::iterator slot, ArenaLease& lease);
  void Unpin(Slots::iterator slot);
  void ReleaseAll(ArenaLease& lease);
  Status Leave(Slots::iterator slot);
  Status Doom(Slots::iterator slot, bool& gone);

  mutable std::mutex mutex_;
  std::unique_ptr<ArenaMemory> memory_;
  RangeAllocator ranges_;
  Slots slots_;
  std::unordered_map<Id, uint64_t, IdHash> places_;  // of what can be found: id -> offset
  std::list<uint64_t> lru_;                          // offsets without pins, least recently used first
  std::map<uint64_t, uint64_t> pinned_;              // offset -> extent
  uint64_t waited_ = 0;                              // mark that the memory's stream has been told to wait for
  ArenaStats stats_;
};

}  // namespace inferscale
