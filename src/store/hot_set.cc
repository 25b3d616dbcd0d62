#include "store/hot_set.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "base/file.h"
#include "base/limits.h"
#include "store/hot_set_impl.h"

namespace inferscale {

HotPin::HotPin(HotPin&& other) noexcept
    : set_(std::exchange(other.set_, nullptr)), slot_(other.slot_), bytes_(std::exchange(other.bytes_, {})) {}

HotPin& HotPin::operator=(HotPin&& other) noexcept {
  if (this == &other) return *this;
  if (set_ != nullptr) set_->Unpin(slot_.offset);
  set_ = std::exchange(other.set_, nullptr);
  slot_ = other.slot_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

HotPin::~HotPin() {
  if (set_ != nullptr) set_->Unpin(slot_.offset);
}

HotFill::HotFill(HotFill&& other) noexcept
    : set_(std::exchange(other.set_, nullptr)), offset_(other.offset_), bytes_(std::exchange(other.bytes_, {})) {}

HotFill& HotFill::operator=(HotFill&& other) noexcept {
  if (this == &other) return *this;
  if (set_ != nullptr) set_->Abandon(offset_);
  set_ = std::exchange(other.set_, nullptr);
  offset_ = other.offset_;
  bytes_ = std::exchange(other.bytes_, {});
  return *this;
}

HotFill::~HotFill() {
  if (set_ != nullptr) set_->Abandon(offset_);
}

HotPin HotFill::Publish() {
  INFERSCALE_ASSERT(set_ != nullptr);
  bytes_ = {};
  return std::exchange(set_, nullptr)->Publish(offset_);
}

Result<std::unique_ptr<HotSet>> HotSet::Create(uint64_t budget_bytes) {
  const uint64_t slots = budget_bytes / kHotPageBytes * kHotPageBytes;
  if (slots == 0 || slots > limits::kHotSetBytes)
    return Fail(ErrorCode::kInvalidArgument, "hot set: a budget of " + std::to_string(budget_bytes) +
                                                 " bytes; it takes " + std::to_string(kHotPageBytes) + " to " +
                                                 std::to_string(limits::kHotSetBytes));
  const uint64_t file_bytes = kHotPageBytes + slots;
  const auto fail = [](int fd) {
    const int number = errno;
    if (fd >= 0) ::close(fd);
    return tl::unexpected<Error>(ErrnoError(number, "make shared memory of", "the hot set"));
  };
  const int fd = ::memfd_create("inferscale-hot-set", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(file_bytes)) != 0) return fail(fd);
  void* const map = ::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED) return fail(fd);
  // Whoever gets the descriptor can map it for reading only, and cannot cut it short under our feet.
  if (::fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    auto failed = fail(fd);
    ::munmap(map, file_bytes);
    return failed;
  }
  const HotFileHeader header{kHotMagic, kHotVersion, static_cast<uint32_t>(kHotPageBytes), file_bytes};
  std::memcpy(map, &header, sizeof(header));
  return std::make_unique<HotSetImpl>(fd, static_cast<std::byte*>(map), file_bytes);
}

Result<HotPin> HotSet::Put(uint64_t record, uint32_t version, std::span<const std::byte> bytes) {
  TRY_ASSIGN(HotFill fill, Reserve(record, version, bytes.size()));
  std::memcpy(fill.bytes().data(), bytes.data(), bytes.size());
  return fill.Publish();
}

HotSetImpl::HotSetImpl(int descriptor, std::byte* map, uint64_t file_bytes)
    : descriptor_(descriptor), map_(map), file_bytes_(file_bytes), ranges_(file_bytes - kHotPageBytes) {
  stats_.budget_bytes = ranges_.free_bytes();
}

HotSetImpl::~HotSetImpl() {
  INFERSCALE_ASSERT(fixed_.empty());  // a pin or a fill outlives its set
  ::munmap(map_, file_bytes_);
  ::close(descriptor_);
}

HotSetImpl::Slots::iterator HotSetImpl::FindReady(uint64_t record) {
  const auto [begin, end] = places_.equal_range(record);
  for (auto place = begin; place != end; ++place) {
    const auto slot = slots_.find(place->second);
    if (slot->second.ready && !slot->second.doomed) return slot;
  }
  return slots_.end();
}

void HotSetImpl::Fix(Slots::iterator slot) {
  if (slot->second.pins++ > 0) return;
  if (slot->second.ready) lru_.erase(slot->second.use);
  fixed_.emplace(slot->first, slot->second.extent());
  stats_.pinned_bytes += slot->second.extent();
}

void HotSetImpl::Unfix(Slots::iterator slot) {
  INFERSCALE_ASSERT(slot->second.pins > 0);
  if (--slot->second.pins > 0) return;
  fixed_.erase(slot->first);
  stats_.pinned_bytes -= slot->second.extent();
  if (!slot->second.ready || slot->second.doomed) return WipeAndFree(slot);
  slot->second.use = lru_.insert(lru_.end(), slot->first);
}

HotPin HotSetImpl::Pin(Slots::iterator slot) {
  Fix(slot);
  const Slot& s = slot->second;
  return HotPin(this, {s.record, s.generation, slot->first, s.bytes, s.version}, BytesAt(slot->first, s.bytes));
}

std::optional<HotPin> HotSetImpl::Find(uint64_t record) {
  std::lock_guard lock(mutex_);
  const auto slot = FindReady(record);
  ++(slot != slots_.end() ? stats_.hits : stats_.misses);
  if (slot == slots_.end()) return std::nullopt;
  return Pin(slot);
}

// Whether a range of that size would be free if everything without a pin went.
bool HotSetImpl::CanMakeRoom(uint64_t extent) const {
  uint64_t from = kHotPageBytes;
  for (const auto& [offset, bytes] : fixed_) {
    if (offset - from >= extent) return true;
    from = offset + bytes;
  }
  return file_bytes_ - from >= extent;
}

Result<uint64_t> HotSetImpl::TakeRange(uint64_t extent) {
  std::optional<uint64_t> range = ranges_.Take(extent);
  if (!range && !CanMakeRoom(extent)) {
    ++stats_.refused;
    return Fail(ErrorCode::kNoSpace, "hot set: what is in use leaves no room for " + std::to_string(extent) + " bytes");
  }
  for (; !range; range = ranges_.Take(extent)) {
    INFERSCALE_ASSERT(!lru_.empty());
    ++stats_.evicted;
    WipeAndFree(slots_.find(lru_.front()));
  }
  return kHotPageBytes + *range;
}

Result<HotFill> HotSetImpl::Reserve(uint64_t record, uint32_t version, uint64_t bytes) {
  if (bytes == 0) return Fail(ErrorCode::kInvalidArgument, "hot set: a record without bytes");
  if (bytes > limits::kRecordBytes || SlotExtent(bytes) > file_bytes_ - kHotPageBytes)
    return Fail(ErrorCode::kTooLarge,
                "hot set: a record of " + std::to_string(bytes) + " bytes is larger than the set");
  std::lock_guard lock(mutex_);
  TRY_ASSIGN(const uint64_t offset, TakeRange(SlotExtent(bytes)));
  const auto slot = slots_.emplace(offset, Slot{record, bytes, NextOdd(), version}).first;
  places_.emplace(record, offset);
  stats_.used_bytes += slot->second.extent();
  Fix(slot);
  HotSlotHeader& header = HeaderAt(offset);
  Shared(header.generation).store(slot->second.generation, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // seen before any of the record's bytes
  Shared(header.record).store(record, std::memory_order_relaxed);
  Shared(header.version).store(version, std::memory_order_relaxed);
  Shared(header.bytes).store(bytes, std::memory_order_relaxed);
  return HotFill(this, offset, BytesAt(offset, bytes));
}

HotPin HotSetImpl::Publish(uint64_t offset) {
  std::lock_guard lock(mutex_);
  const auto slot = slots_.find(offset);
  if (const auto other = FindReady(slot->second.record); other != slots_.end() && !slot->second.doomed) {
    HotPin pin = Pin(other);
    Unfix(slot);
    return pin;
  }
  ++slot->second.generation;
  // Not a plain release: a large copy may have gone around the caches, which only a full fence orders.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Shared(HeaderAt(offset).generation).store(slot->second.generation, std::memory_order_release);
  slot->second.ready = true;
  ++stats_.inserted;
  const Slot& s = slot->second;  // the fill's pin becomes the caller's
  return HotPin(this, {s.record, s.generation, offset, s.bytes, s.version}, BytesAt(offset, s.bytes));
}

void HotSetImpl::Abandon(uint64_t offset) {
  std::lock_guard lock(mutex_);
  Unfix(slots_.find(offset));
}

void HotSetImpl::Unpin(uint64_t offset) {
  std::lock_guard lock(mutex_);
  Unfix(slots_.find(offset));
}

void HotSetImpl::WipeAndFree(Slots::iterator slot) {
  const auto [offset, s] = *slot;
  INFERSCALE_ASSERT(s.pins == 0);
  if (s.ready && !s.doomed) lru_.erase(s.use);
  HotSlotHeader& header = HeaderAt(offset);
  Shared(header.generation).store(NextOdd(), std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // seen before any of the bytes changes
  Shared(header.record).store(0, std::memory_order_relaxed);
  Shared(header.version).store(0, std::memory_order_relaxed);
  Shared(header.bytes).store(0, std::memory_order_relaxed);
  const std::span<std::byte> bytes = BytesAt(offset, s.bytes);
  std::memset(bytes.data(), 0, bytes.size());
  const auto [begin, end] = places_.equal_range(s.record);
  places_.erase(std::find_if(begin, end, [&, at = offset](const auto& place) { return place.second == at; }));
  stats_.used_bytes -= s.extent();
  ranges_.Give(offset - kHotPageBytes, s.extent());
  slots_.erase(slot);
}

// True: it is gone.
bool HotSetImpl::Doom(Slots::iterator slot) {
  ++stats_.wiped;
  if (slot->second.pins == 0) {
    WipeAndFree(slot);
    return true;
  }
  slot->second.doomed = true;
  return false;
}

bool HotSetImpl::Evict(uint64_t record) {
  std::lock_guard lock(mutex_);
  bool gone = true;
  const auto [begin, end] = places_.equal_range(record);
  for (auto place = begin; place != end;) {
    const auto slot = slots_.find(place->second);
    ++place;  // before its entry goes
    if (slot->second.doomed) {
      gone = false;
    } else {
      gone = Doom(slot) && gone;
    }
  }
  return gone;
}

bool HotSetImpl::Clear() {
  std::lock_guard lock(mutex_);
  bool gone = true;
  for (auto slot = slots_.begin(); slot != slots_.end();) {
    const auto next = std::next(slot);
    gone = (slot->second.doomed ? false : Doom(slot)) && gone;
    slot = next;
  }
  return gone;
}

HotSetStats HotSetImpl::stats() const {
  std::lock_guard lock(mutex_);
  HotSetStats stats = stats_;
  for (const auto& [offset, slot] : slots_) stats.records += slot.ready && !slot.doomed ? 1 : 0;
  return stats;
}

}  // namespace inferscale
