#include "catalog/sqlite_wipe.h"

#include <algorithm>
#include <vector>

#include "catalog/sqlite_page.h"

namespace inferscale::sqlite {

namespace {

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
  uint32_t U32(size_t at) const { return static_cast<uint32_t>(PageU16(page_, at) << 16 | PageU16(page_, at + 2)); }

  // Wipes one page, and adds its children.
  Status WipePage(uint32_t number, std::vector<uint32_t>& todo) {
    const auto offset = static_cast<sqlite3_int64>(number - 1) * static_cast<sqlite3_int64>(page_.size());
    TRY(Check(file_->pMethods->xRead(file_, page_.data(), static_cast<int>(page_.size()), offset), "read a page"));
    const auto tree = ReadTreePage(page_, number);
    if (!tree) return Damaged();
    if (tree->is_interior) {
      todo.push_back(U32(tree->pointers - 4));  // the last child
      for (size_t i = 0; i < tree->cells; ++i) {
        const size_t cell = PageU16(page_, tree->pointers + 2 * i);
        if (cell < tree->end || cell + 4 > page_.size()) return Damaged();
        todo.push_back(U32(cell));
      }
    }
    const auto unused = page_.begin() + static_cast<std::ptrdiff_t>(tree->begin);
    const size_t size = tree->end - tree->begin;
    if (std::all_of(unused, unused + static_cast<std::ptrdiff_t>(size), [](uint8_t byte) { return byte == 0; }))
      return {};
    std::fill_n(unused, size, uint8_t{0});
    wrote_ = true;
    // The page's checksum does not cover them.
    return Check(file_->pMethods->xWrite(file_, page_.data() + tree->begin, static_cast<int>(size),
                                         offset + static_cast<sqlite3_int64>(tree->begin)),
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
