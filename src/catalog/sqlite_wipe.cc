#include "catalog/sqlite_wipe.h"

#include <algorithm>
#include <vector>

namespace inferscale::sqlite {

namespace {

// The file format of SQLite, as its documentation describes it.
constexpr size_t kFileHeader = 100;  // before the header of page 1
enum PageType : uint8_t { kIndexInterior = 2, kTableInterior = 5, kIndexLeaf = 10, kTableLeaf = 13 };

class Wiper {
 public:
  Wiper(sqlite3_file* file, size_t page_size, uint32_t pages)
      : file_(file), page_(page_size), seen_(pages + size_t{1}, false) {}

  Status WipeTree(uint32_t root) {
    std::vector<uint32_t> todo = {root};
    while (!todo.empty()) {
      const uint32_t number = todo.back();
      todo.pop_back();
      if (number == 0 || number >= seen_.size() || seen_[number]) return Damaged();
      seen_[number] = true;
      TRY(WipePage(number, todo));
    }
    return {};
  }

  Status Sync() {
    if (!wrote_) return {};
    return Check(file_->pMethods->xSync(file_, SQLITE_SYNC_FULL), "sync");
  }

 private:
  static tl::unexpected<Error> Damaged() {
    return Fail(ErrorCode::kCorrupt, "catalog: the database's pages are damaged; run `inferscale fsck`");
  }
  static Status Check(int code, std::string_view action) {
    if (code == SQLITE_OK) return {};
    return tl::unexpected<Error>(SqliteError(nullptr, code, action));
  }
  size_t U16(size_t at) const { return size_t{page_[at]} << 8 | page_[at + 1]; }
  uint32_t U32(size_t at) const { return static_cast<uint32_t>(U16(at) << 16 | U16(at + 2)); }

  // Wipes one page, and adds its children.
  Status WipePage(uint32_t number, std::vector<uint32_t>& todo) {
    const auto offset = static_cast<sqlite3_int64>(number - 1) * static_cast<sqlite3_int64>(page_.size());
    TRY(Check(file_->pMethods->xRead(file_, page_.data(), static_cast<int>(page_.size()), offset), "read a page"));
    const size_t header = number == 1 ? kFileHeader : 0;
    const uint8_t type = page_[header];
    const bool is_interior = type == kIndexInterior || type == kTableInterior;
    if (!is_interior && type != kIndexLeaf && type != kTableLeaf) return Damaged();
    const size_t cells = U16(header + 3), pointers = header + (is_interior ? 12 : 8), begin = pointers + 2 * cells;
    const size_t end = U16(header + 5) == 0 ? 65536 : U16(header + 5);  // where the cells begin
    if (begin > end || end > page_.size()) return Damaged();
    if (is_interior) {
      todo.push_back(U32(header + 8));
      for (size_t i = 0; i < cells; ++i) {
        const size_t cell = U16(pointers + 2 * i);
        if (cell < end || cell + 4 > page_.size()) return Damaged();
        todo.push_back(U32(cell));
      }
    }
    const auto unused = page_.begin() + static_cast<std::ptrdiff_t>(begin);
    const size_t size = end - begin;
    if (std::all_of(unused, unused + static_cast<std::ptrdiff_t>(size), [](uint8_t byte) { return byte == 0; }))
      return {};
    std::fill_n(unused, size, uint8_t{0});
    wrote_ = true;
    return Check(file_->pMethods->xWrite(file_, page_.data() + begin, static_cast<int>(size),
                                         offset + static_cast<sqlite3_int64>(begin)),
                 "overwrite unused space");
  }

  sqlite3_file* file_;
  std::vector<uint8_t> page_;
  std::vector<bool> seen_;
  bool wrote_ = false;
};

}  // namespace

Status WipeUnusedSpace(Connection& connection) {
  TRY_ASSIGN(const auto page_size, connection.Value("PRAGMA page_size"));
  TRY_ASSIGN(const auto pages, connection.Value("PRAGMA page_count"));
  std::vector<uint32_t> roots = {1};  // the schema's own
  {
    TRY_ASSIGN(Cursor cursor, connection.Query("SELECT rootpage FROM sqlite_schema WHERE rootpage>0"));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      roots.push_back(cursor.U32(0));
    }
  }
  sqlite3_file* file = nullptr;
  const int code = sqlite3_file_control(connection.db(), "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code != SQLITE_OK || file == nullptr || !page_size || !pages)
    return tl::unexpected<Error>(SqliteError(connection.db(), code, "reach the database's file"));
  Wiper wiper(file, static_cast<size_t>(*page_size), static_cast<uint32_t>(*pages));
  for (const uint32_t root : roots) TRY(wiper.WipeTree(root));
  return wiper.Sync();
}

}  // namespace inferscale::sqlite
