#include "catalog/page_check_vfs.h"

#include <string.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>

#include "catalog/sqlite_connection.h"
#include "catalog/sqlite_page.h"
#include "catalog/vfs_forward.h"

namespace inferscale::sqlite {

namespace {

// Numbers below 100 are SQLite's own.
constexpr int kModeControl = 0x4953'0001;  // PageMode*
constexpr int kSumsControl = 0x4953'0002;  // bool*: HasPageSums

struct CheckVfs {
  std::string name;
  sqlite3_vfs vfs{};
  sqlite3_vfs* base = nullptr;
};

// The main database file. Behind it in the same memory: the base's file.
struct CheckedFile {
  sqlite3_file head{};
  bool has_sums = false;
  PageMode mode = PageMode::kCheck;
  sqlite3_file* base() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
static_assert(sizeof(CheckedFile) % 8 == 0);  // what SQLite gives has no larger alignment

using Page = std::array<uint8_t, kPageBytes>;

CheckedFile* Of(sqlite3_file* file) { return reinterpret_cast<CheckedFile*>(file); }
sqlite3_file* Base(sqlite3_file* file) { return Of(file)->base(); }

uint32_t NumberOf(sqlite3_int64 offset) {
  return static_cast<uint32_t>(offset / static_cast<sqlite3_int64>(kPageBytes)) + 1;
}

// SQLite reads and writes pages whole, and from the header of page 1 smaller pieces. A page of another size than a
// catalog's comes from a damaged header.
bool IsPage(int size, sqlite3_int64 offset) { return size >= 512 && (size & (size - 1)) == 0 && offset % size == 0; }

bool Fits(const uint8_t* bytes, uint32_t number) {
  const std::span<const uint8_t> page(bytes, kPageBytes);
  return PageSum(page, number) == StoredPageSum(page);
}

int Close(sqlite3_file* file) {
  const int code = Base(file)->pMethods->xClose(Base(file));
  Of(file)->~CheckedFile();
  return code;
}

int Read(sqlite3_file* file, void* into, int size, sqlite3_int64 offset) {
  CheckedFile* const checked = Of(file);
  const int code = Base(file)->pMethods->xRead(Base(file), into, size, offset);
  const auto* const bytes = static_cast<const uint8_t*>(into);
  // Once known it stays: a header that changes below an open file is damaged.
  if (code == SQLITE_OK && offset == 0 && size > static_cast<int>(kReservedAt))
    checked->has_sums |= bytes[kReservedAt] == kPageSumBytes;
  if (!checked->has_sums || checked->mode != PageMode::kCheck || !IsPage(size, offset)) return code;
  // SQLite would take the missing end of a file for zeros.
  if (code == SQLITE_IOERR_SHORT_READ) return SQLITE_IOERR_DATA;
  if (code != SQLITE_OK) return code;
  return size == static_cast<int>(kPageBytes) && Fits(bytes, NumberOf(offset)) ? SQLITE_OK : SQLITE_IOERR_DATA;
}

// Whether the page that is in the file now is damaged. One that is not there yet is not, nor is a hole that a
// checkpoint left for it when it wrote a later page first.
bool IsDamaged(sqlite3_file* file, Page& page, sqlite3_int64 offset) {
  const int code = Base(file)->pMethods->xRead(Base(file), page.data(), static_cast<int>(page.size()), offset);
  if (code != SQLITE_OK || Fits(page.data(), NumberOf(offset))) return false;
  return std::any_of(page.begin(), page.end(), [](uint8_t byte) { return byte != 0; });
}

int Write(sqlite3_file* file, const void* from, int size, sqlite3_int64 offset) {
  CheckedFile* const checked = Of(file);
  const auto* const bytes = static_cast<const uint8_t*>(from);
  const bool is_page = size == static_cast<int>(kPageBytes) && IsPage(size, offset);
  // A checkpoint writes page 1 first, so that the sums of a file which gets them are there from its beginning.
  if (is_page && offset == 0) checked->has_sums |= bytes[kReservedAt] == kPageSumBytes;
  if (!checked->has_sums || !is_page) return Base(file)->pMethods->xWrite(Base(file), from, size, offset);
  Page page;  // a copy: the bytes are SQLite's
  const bool keep_damage = checked->mode == PageMode::kTrust && IsDamaged(file, page, offset);
  memcpy(page.data(), from, page.size());
  const uint64_t sum = PageSum(page, NumberOf(offset));
  StorePageSum(page, keep_damage ? ~sum : sum);
  const int code = Base(file)->pMethods->xWrite(Base(file), page.data(), size, offset);
  explicit_bzero(page.data(), page.size());  // it held text
  return code;
}

int FileControl(sqlite3_file* file, int op, void* argument) {
  if (op == kSumsControl) {
    *static_cast<bool*>(argument) = Of(file)->has_sums;
    return SQLITE_OK;
  }
  if (op != kModeControl) return Base(file)->pMethods->xFileControl(Base(file), op, argument);
  Of(file)->mode = *static_cast<const PageMode*>(argument);
  return SQLITE_OK;
}

constexpr sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods = ForwardingMethods<Base>();
  methods.xClose = Close;
  methods.xRead = Read;
  methods.xWrite = Write;
  methods.xFileControl = FileControl;
  return methods;
}();

sqlite3_vfs* BaseOf(sqlite3_vfs* vfs) { return static_cast<CheckVfs*>(vfs->pAppData)->base; }

int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  sqlite3_vfs* const base = BaseOf(vfs);
  // The log and the rest are the base's alone, in the same memory.
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return base->xOpen(base, path, file, flags, out_flags);
  CheckedFile* const checked = std::construct_at(Of(file));
  memset(checked->base(), 0, static_cast<size_t>(base->szOsFile));
  const int code = base->xOpen(base, path, checked->base(), flags, out_flags);
  // SQLite closes what has methods, also after an error.
  if (checked->base()->pMethods != nullptr) checked->head.pMethods = &kMethods;
  return code;
}

void Fill(CheckVfs& check, const std::string& base_name) {
  check.name = "inferscale pages" + (base_name.empty() ? "" : " on " + base_name);
  check.vfs = ForwardingVfs<BaseOf>(*check.base, check.name.c_str(), sizeof(CheckedFile), &check);
  check.vfs.xOpen = Open;
}

}  // namespace

Result<std::string> PageCheckVfs(const std::string& base) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<CheckVfs>> all;  // by the base's name
  const std::lock_guard lock(mutex);
  std::unique_ptr<CheckVfs>& check = all[base];
  if (check != nullptr) return check->name;
  auto made = std::make_unique<CheckVfs>();
  made->base = sqlite3_vfs_find(base.empty() ? nullptr : base.c_str());
  if (made->base == nullptr) return Fail(ErrorCode::kInvalidArgument, "catalog: there is no SQLite VFS " + base);
  Fill(*made, base);
  if (const int code = sqlite3_vfs_register(&made->vfs, 0); code != SQLITE_OK)
    return tl::unexpected<Error>(SqliteError(nullptr, code, "register a VFS"));
  check = std::move(made);
  return check->name;
}

Status SetPageMode(sqlite3* db, PageMode mode) {
  const int code = sqlite3_file_control(db, "main", kModeControl, &mode);
  if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db, code, "set how pages are read"));
  return {};
}

Result<bool> HasPageSums(sqlite3* db) {
  bool has = false;
  const int code = sqlite3_file_control(db, "main", kSumsControl, &has);
  if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(db, code, "read how pages are checked"));
  return has;
}

Result<std::vector<uint32_t>> DamagedPages(sqlite3* db) {
  sqlite3_file* file = nullptr;
  sqlite3_int64 size = 0;
  int code = sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &file);
  if (code == SQLITE_OK) code = Base(file)->pMethods->xFileSize(Base(file), &size);
  std::vector<uint32_t> damaged;
  const auto page_bytes = static_cast<sqlite3_int64>(kPageBytes);
  Page page;
  for (sqlite3_int64 at = 0; code == SQLITE_OK && at < size && Of(file)->has_sums; at += page_bytes) {
    if (NumberOf(at) == kLockPage) continue;
    code = Base(file)->pMethods->xRead(Base(file), page.data(), static_cast<int>(kPageBytes), at);
    const bool is_short = code == SQLITE_IOERR_SHORT_READ;
    if (is_short) code = SQLITE_OK;
    if (code == SQLITE_OK && (is_short || !Fits(page.data(), NumberOf(at)))) damaged.push_back(NumberOf(at));
  }
  explicit_bzero(page.data(), page.size());
  if (code != SQLITE_OK) return tl::unexpected<Error>(SqliteError(nullptr, code, "read a page"));
  return damaged;
}

}  // namespace inferscale::sqlite
