// A page of SQLite's file format, as its documentation describes it: where the cells of a b-tree page are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace inferscale::sqlite {

inline constexpr size_t kPageBytes = 4096;      // of every catalog
inline constexpr size_t kFileHeader = 100;      // before the header of page 1
inline constexpr size_t kReservedAt = 20;       // in it: how many bytes at each page's end are not SQLite's
inline constexpr size_t kPageSumBytes = 8;      // and how many a catalog has there, for the page's checksum
inline constexpr uint32_t kLockPage = 262'145;  // at 1 GiB; SQLite leaves it unused for its locks

struct TreePage {
  bool is_interior = false;
  size_t cells = 0;
  size_t pointers = 0;  // place of the first cell's pointer, two bytes each
  size_t begin = 0;     // [begin, end): unused, between pointers and cells
  size_t end = 0;
};

// nullopt: no b-tree page (of an overflow chain, or free), or a damaged one.
std::optional<TreePage> ReadTreePage(std::span<const uint8_t> page, uint32_t number);

inline size_t PageU16(std::span<const uint8_t> page, size_t at) { return size_t{page[at]} << 8 | page[at + 1]; }

// What the last eight bytes of a catalog's page hold, little-endian: XXH3-64 of the XXH3-64 of what is before the
// unused bytes of a b-tree page, that of what is behind them, and the page's number, eight bytes each. Without the
// unused bytes, since they are overwritten in place when text is erased (sqlite_wipe.h): a power cut in the middle of
// that must not make a page look damaged. Overflow pages are taken for b-tree pages when their first byte, of the next
// page's number, is one of the four types: never below 2^25 pages (128 GiB); above, less of them would be covered.
uint64_t PageSum(std::span<const uint8_t> page, uint32_t number);
uint64_t StoredPageSum(std::span<const uint8_t> page);
void StorePageSum(std::span<uint8_t> page, uint64_t sum);

}  // namespace inferscale::sqlite
