#include "catalog/sqlite_page.h"

#include <bit>
#include <cstring>

#include "base/hash.h"

namespace inferscale::sqlite {

static_assert(std::endian::native == std::endian::little);  // sums are stored as they are in memory

namespace {

enum PageType : uint8_t { kIndexInterior = 2, kTableInterior = 5, kIndexLeaf = 10, kTableLeaf = 13 };

}  // namespace

std::optional<TreePage> ReadTreePage(std::span<const uint8_t> page, uint32_t number) {
  const size_t header = number == 1 ? kFileHeader : 0;
  const uint8_t type = page[header];
  TreePage tree;
  tree.is_interior = type == kIndexInterior || type == kTableInterior;
  if (!tree.is_interior && type != kIndexLeaf && type != kTableLeaf) return std::nullopt;
  tree.cells = PageU16(page, header + 3);
  tree.pointers = header + (tree.is_interior ? 12 : 8);
  tree.begin = tree.pointers + 2 * tree.cells;
  tree.end = PageU16(page, header + 5);
  if (tree.end == 0) tree.end = 65'536;
  if (tree.begin > tree.end || tree.end > page.size()) return std::nullopt;
  return tree;
}

uint64_t PageSum(std::span<const uint8_t> page, uint32_t number) {
  const size_t usable = page.size() - kPageSumBytes;
  size_t begin = usable, end = usable;
  if (const auto tree = ReadTreePage(page, number); tree && tree->end <= usable) {
    begin = tree->begin;
    end = tree->end;
  }
  const uint64_t parts[] = {Checksum64(page.data(), begin), Checksum64(page.data() + end, usable - end), number};
  return Checksum64(parts, sizeof parts);
}

uint64_t StoredPageSum(std::span<const uint8_t> page) {
  uint64_t sum = 0;
  std::memcpy(&sum, page.data() + page.size() - kPageSumBytes, kPageSumBytes);
  return sum;
}

void StorePageSum(std::span<uint8_t> page, uint64_t sum) {
  std::memcpy(page.data() + page.size() - kPageSumBytes, &sum, kPageSumBytes);
}

}  // namespace inferscale::sqlite
