// The bytes that a hot set and its readers in other processes share (docs/formats/hot_set.md).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace inferscale {

inline constexpr uint64_t kHotPageBytes = 4096;
inline constexpr uint64_t kHotSlotHeaderBytes = 64;  // a cache line, and the alignment of the bytes behind it

inline constexpr uint64_t kHotMagic = 0x1A0A0D5448534989;  // "\x89ISHT\r\n\x1A"
inline constexpr uint32_t kHotVersion = 1;

// The first page.
struct HotFileHeader {
  uint64_t magic;
  uint32_t version;
  uint32_t page_bytes;
  uint64_t file_bytes;  // this page included
};

// At a slot's first byte. A reader of another process may look at any time: `generation` says whether the rest, and
// what follows, belongs to the slot it was told of.
struct HotSlotHeader {
  uint64_t record;
  uint32_t version;
  uint32_t zero;
  uint64_t bytes;
  uint64_t generation;  // odd: being written or wiped
};
static_assert(sizeof(HotSlotHeader) <= kHotSlotHeaderBytes);

// Every access of a header while others may look at it.
template <class T>
std::atomic_ref<T> Shared(T& field) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  return std::atomic_ref<T>(field);
}

}  // namespace inferscale
