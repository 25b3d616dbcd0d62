#include "store/hot_set_reader.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"
#include "store/hot_set_format.h"

namespace inferscale {

namespace {

// A shared field of a map that is read-only: atomic_ref wants a reference to something that can change.
template <class T>
T Load(const T& field, std::memory_order order) {
  return Shared(const_cast<T&>(field)).load(order);
}

}  // namespace

Result<std::unique_ptr<HotSetReader>> HotSetReader::Map(int descriptor) {
  struct stat st {};
  if (::fstat(descriptor, &st) != 0) return tl::unexpected<Error>(ErrnoError(errno, "stat", "the hot set"));
  const auto bytes = static_cast<uint64_t>(st.st_size);
  if (bytes <= kHotPageBytes) return Fail(ErrorCode::kCorrupt, "hot set: the shared memory is too short");
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, descriptor, 0);
  if (map == MAP_FAILED) return tl::unexpected<Error>(ErrnoError(errno, "map", "the hot set"));
  std::unique_ptr<HotSetReader> reader(new HotSetReader(static_cast<std::byte*>(map), bytes));
  HotFileHeader header;
  std::memcpy(&header, map, sizeof(header));
  if (header.magic != kHotMagic) return Fail(ErrorCode::kCorrupt, "hot set: the shared memory is not one of ours");
  if (header.version != kHotVersion)
    return Fail(ErrorCode::kVersionUnsupported, "hot set: version " + std::to_string(header.version) +
                                                    ", this program knows " + std::to_string(kHotVersion));
  if (header.page_bytes != kHotPageBytes || header.file_bytes != bytes)
    return Fail(ErrorCode::kCorrupt, "hot set: the shared memory is not as long as it says");
  return reader;
}

HotSetReader::~HotSetReader() { ::munmap(map_, bytes_); }

std::span<const std::byte> HotSetReader::BytesOf(const HotSlot& slot) const {
  const bool inside = slot.offset >= kHotPageBytes && slot.offset % kHotPageBytes == 0 && slot.offset < bytes_ &&
                      slot.bytes <= bytes_ - slot.offset - kHotSlotHeaderBytes;
  if (!inside) return {};
  return {map_ + slot.offset + kHotSlotHeaderBytes, slot.bytes};
}

bool HotSetReader::Holds(const HotSlot& slot) const {
  if (BytesOf(slot).empty() || slot.generation % 2 != 0) return false;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // the copy before this ends before the look
  const auto& header = *reinterpret_cast<const HotSlotHeader*>(map_ + slot.offset);
  const bool holds = Load(header.generation, std::memory_order_acquire) == slot.generation &&
                     Load(header.record, std::memory_order_relaxed) == slot.record &&
                     Load(header.version, std::memory_order_relaxed) == slot.version &&
                     Load(header.bytes, std::memory_order_relaxed) == slot.bytes;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // and the copy after this begins after it
  return holds;
}

Status HotSetReader::Copy(const HotSlot& slot, std::span<std::byte> into) const {
  const std::span<const std::byte> bytes = BytesOf(slot);
  if (bytes.empty() || into.size() != bytes.size())
    return Fail(ErrorCode::kInvalidArgument, "hot set: a slot that cannot be");
  const auto gone = [] { return Fail(ErrorCode::kMismatch, "hot set: the slot holds another record by now"); };
  if (!Holds(slot)) return gone();
  std::memcpy(into.data(), bytes.data(), bytes.size());
  if (!Holds(slot)) return gone();
  return {};
}

}  // namespace inferscale
