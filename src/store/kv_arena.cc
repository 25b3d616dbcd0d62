#include "store/kv_arena.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/assert.h"
#include "base/limits.h"

namespace inferscale {
namespace {

uint64_t Extent(uint64_t payload_bytes) {
  return (kernels::kStampBytes + payload_bytes + kArenaSlabBytes - 1) / kArenaSlabBytes * kArenaSlabBytes;
}

}  // namespace

ArenaLease::ArenaLease(ArenaLease&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)), pins_(std::move(other.pins_)), slots_(std::move(other.slots_)) {}

ArenaLease& ArenaLease::operator=(ArenaLease&& other) noexcept {
  if (this == &other) return *this;
  Release();
  arena_ = std::exchange(other.arena_, nullptr);
  pins_ = std::move(other.pins_);
  slots_ = std::move(other.slots_);
  return *this;
}

ArenaLease::~ArenaLease() { Release(); }

void ArenaLease::Release() {
  if (arena_ == nullptr) return;
  std::lock_guard lock(arena_->mutex_);
  std::exchange(arena_, nullptr)->ReleaseAll(*this);
}

KvArena::KvArena(std::unique_ptr<ArenaMemory> memory) : memory_(std::move(memory)), ranges_(memory_->size()) {
  stats_.budget_bytes = memory_->size();
}

KvArena::~KvArena() {
  INFERSCALE_ASSERT(pinned_.empty());  // a lease outlives its arena
}

KvArena::Slots::iterator KvArena::Find(const ArenaRecord& record) {
  const auto place = places_.find({record.stamp.id[0], record.stamp.id[1]});
  return place == places_.end() ? slots_.end() : slots_.find(place->second);
}

void KvArena::Pin(Slots::iterator slot, ArenaLease& lease) {
  if (slot->second.pins++ == 0) {
    lru_.erase(slot->second.use);
    pinned_.emplace(slot->first, slot->second.extent);
    stats_.pinned_bytes += slot->second.extent;
  }
  uint8_t* at = memory_->base() + slot->first;
  lease.pins_.push_back(slot->first);
  lease.slots_.push_back({at + kernels::kStampBytes, reinterpret_cast<const kernels::RecordStamp*>(at)});
}

void KvArena::Unpin(Slots::iterator slot) {
  INFERSCALE_ASSERT(slot->second.pins > 0);
  if (--slot->second.pins > 0) return;
  pinned_.erase(slot->first);
  stats_.pinned_bytes -= slot->second.extent;
  slot->second.use = lru_.insert(lru_.end(), slot->first);
  // A device that cannot wipe keeps the slot; the next call says what is wrong.
  if (slot->second.doomed) (void)Leave(slot);
}

void KvArena::ReleaseAll(ArenaLease& lease) {
  const uint64_t mark = lease.pins_.empty() ? 0 : memory_->MarkUses();
  for (const uint64_t offset : lease.pins_) {
    const auto slot = slots_.find(offset);
    slot->second.mark = mark;
    Unpin(slot);
  }
  lease.pins_.clear();
  lease.slots_.clear();
}

// Overwrites a slot that has no pins, and gives its slabs back.
Status KvArena::Leave(Slots::iterator slot) {
  const auto [offset, s] = *slot;
  INFERSCALE_ASSERT(s.pins == 0);
  if (s.mark > waited_) {
    TRY(memory_->WaitForUses(s.mark));
    waited_ = s.mark;
  }
  TRY(memory_->Wipe(offset, s.extent));
  const auto place = places_.find({s.stamp.id[0], s.stamp.id[1]});
  if (place != places_.end() && place->second == offset) places_.erase(place);
  lru_.erase(s.use);
  stats_.used_bytes -= s.extent;
  ranges_.Give(offset, s.extent);
  slots_.erase(slot);
  return {};
}

// Whether a range of that size would be free if everything without a pin went.
bool KvArena::CanMakeRoom(uint64_t extent) const {
  uint64_t from = 0;
  for (const auto& [offset, bytes] : pinned_) {
    if (offset - from >= extent) return true;
    from = offset + bytes;
  }
  return memory_->size() - from >= extent;
}

// kNoSpace: pinned records leave no room.
Result<uint64_t> KvArena::TakeRange(uint64_t extent) {
  std::optional<uint64_t> range = ranges_.Take(extent);
  if (!range && !CanMakeRoom(extent)) return Fail(ErrorCode::kNoSpace, "arena: no room between records in use");
  for (; !range; range = ranges_.Take(extent)) {
    INFERSCALE_ASSERT(!lru_.empty());
    TRY(Leave(slots_.find(lru_.front())));
    ++stats_.evicted;
  }
  return *range;
}

// A slot for a record that is missing, without pins.
Result<uint64_t> KvArena::Place(const ArenaRecord& record, std::vector<ArenaLoad>& loads) {
  TRY_ASSIGN(const uint64_t offset, TakeRange(Extent(record.bytes)));
  const Id id{record.stamp.id[0], record.stamp.id[1]};
  Slot slot{.stamp = record.stamp, .extent = Extent(record.bytes)};
  slot.use = lru_.insert(lru_.end(), offset);
  stats_.used_bytes += slot.extent;
  stats_.loaded_bytes += record.bytes;
  slots_.emplace(offset, slot);
  places_.insert_or_assign(id, offset);
  loads.push_back({offset, record.payload, record.bytes, record.stamp, record.origin});
  return offset;
}

Status KvArena::AcquireAll(std::span<const ArenaRecord> records, ArenaLease& lease) {
  std::vector<ArenaLoad> loads;
  const auto place_all = [&]() -> Status {
    for (const ArenaRecord& record : records) {
      auto slot = Find(record);
      if (slot != slots_.end() && slot->second.stamp != record.stamp) {
        bool gone = false;
        TRY(Doom(slot, gone));  // another version or content of it
        slot = slots_.end();
      }
      ++(slot != slots_.end() ? stats_.hits : stats_.misses);
      if (slot == slots_.end()) {
        const Result<uint64_t> offset = Place(record, loads);
        if (!offset && offset.error().code != ErrorCode::kNoSpace) return tl::unexpected<Error>(offset.error());
        if (!offset) {
          ++stats_.refused;
          lease.slots_.push_back({});
          continue;
        }
        slot = slots_.find(*offset);
      }
      Pin(slot, lease);
    }
    if (loads.empty()) return {};
    TRY(memory_->Load(loads));
    return memory_->ReadyForUses();
  };
  Status status = place_all();
  if (!status) {
    for (const ArenaLoad& load : loads) {
      slots_.find(load.offset)->second.doomed = true;
      places_.erase({load.stamp.id[0], load.stamp.id[1]});
    }
    ReleaseAll(lease);
  }
  return status;
}

Result<ArenaLease> KvArena::Acquire(std::span<const ArenaRecord> records) {
  if (records.size() > limits::kPlanSources) return Fail(ErrorCode::kTooLarge, "arena: too many records at once");
  for (const ArenaRecord& record : records) {
    const bool aligned = record.bytes % 16 == 0 && reinterpret_cast<uintptr_t>(record.payload) % 16 == 0;
    if (record.payload == nullptr || record.bytes == 0 || !aligned || record.stamp.generation == 0) {
      return Fail(ErrorCode::kInvalidArgument, "arena: a record without bytes or stamp, or not 16-byte aligned");
    }
    if (record.bytes > limits::kRecordBytes) return Fail(ErrorCode::kTooLarge, "arena: larger than a record may be");
  }
  std::lock_guard lock(mutex_);
  ArenaLease lease;
  lease.slots_.reserve(records.size());
  lease.pins_.reserve(records.size());
  TRY(AcquireAll(records, lease));
  lease.arena_ = this;
  return lease;
}

Status KvArena::Prefetch(std::span<const ArenaRecord> records) {
  TRY(Acquire(records));
  return {};
}

// gone: it had no pins.
Status KvArena::Doom(Slots::iterator slot, bool& gone) {
  ++stats_.wiped;
  places_.erase({slot->second.stamp.id[0], slot->second.stamp.id[1]});
  slot->second.doomed = true;
  gone = slot->second.pins == 0;
  return gone ? Leave(slot) : Status();
}

Result<bool> KvArena::Evict(const uint64_t (&id)[2]) {
  std::lock_guard lock(mutex_);
  bool gone = true;
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    const auto next = std::next(slot);
    const kernels::RecordStamp& stamp = slot->second.stamp;
    if (stamp.id[0] == id[0] && stamp.id[1] == id[1]) {
      if (slot->second.doomed) {
        gone = false;
      } else {
        bool this_one = false;
        TRY(Doom(slot, this_one));
        gone = gone && this_one;
      }
    }
    slot = next;
  }
  return gone;
}

Result<bool> KvArena::Clear() {
  std::lock_guard lock(mutex_);
  bool gone = true;
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    const auto next = std::next(slot);
    bool this_one = false;
    if (!slot->second.doomed) TRY(Doom(slot, this_one));
    gone = gone && this_one;
    slot = next;
  }
  return gone;
}

Status KvArena::Finish() {
  std::lock_guard lock(mutex_);
  return memory_->Finish();
}

ArenaStats KvArena::stats() const {
  std::lock_guard lock(mutex_);
  ArenaStats stats = stats_;
  stats.records = places_.size();
  return stats;
}

}  // namespace inferscale
