#include "catalog/crash_vfs_test_util.h"

#include <sqlite3.h>

#include <atomic>
#include <cstring>
#include <new>

#include "base/assert.h"
#include "catalog/sqlite_memory.h"
#include "catalog/vfs_forward.h"

namespace inferscale {

namespace fs = std::filesystem;
using Kind = FileOp::Kind;

struct RecordingVfs::Impl {
  fs::path root;
  FileOpLog* log;
  std::string name;
  sqlite3_vfs vfs{};
  sqlite3_vfs* system = nullptr;
  std::function<int(const FileOp&)> before;
};

namespace {

using Impl = RecordingVfs::Impl*;

// Behind it in the same memory: the system's file.
struct RecordedFile {
  sqlite3_file base{};
  Impl vfs = nullptr;  // null: not recorded
  std::string name;
  bool name_unsynced = false;  // SQLite makes the name of a journal durable with its first sync
  sqlite3_file* system() { return reinterpret_cast<sqlite3_file*>(this + 1); }
};
static_assert(sizeof(RecordedFile) % 8 == 0);  // what SQLite gives has no larger alignment

RecordedFile* Of(sqlite3_file* file) { return reinterpret_cast<RecordedFile*>(file); }
sqlite3_file* System(sqlite3_file* file) { return Of(file)->system(); }

int Note(RecordedFile* file, FileOp op) {
  if (file->vfs == nullptr) return SQLITE_OK;
  op.name = file->name;
  const int code = file->vfs->before && op.kind != Kind::kCreate ? file->vfs->before(op) : SQLITE_OK;
  if (code == SQLITE_OK) file->vfs->log->Add(std::move(op));
  return code;
}

std::string FolderOf(const std::string& name) { return fs::path(name).parent_path().string(); }

int Close(sqlite3_file* file) {
  const int code = System(file)->pMethods != nullptr ? System(file)->pMethods->xClose(System(file)) : SQLITE_OK;
  Of(file)->~RecordedFile();
  return code;
}
int Write(sqlite3_file* file, const void* bytes, int size, sqlite3_int64 offset) {
  FileOp op{.kind = Kind::kWrite, .name = {}, .to = {}, .offset = static_cast<uint64_t>(offset)};
  op.bytes.assign(static_cast<const char*>(bytes), static_cast<size_t>(size));
  if (const int code = Note(Of(file), std::move(op)); code != SQLITE_OK) return code;
  return System(file)->pMethods->xWrite(System(file), bytes, size, offset);
}
int Truncate(sqlite3_file* file, sqlite3_int64 size) {
  FileOp op{.kind = Kind::kTruncate, .name = {}, .to = {}, .offset = 0, .length = static_cast<uint64_t>(size)};
  if (const int code = Note(Of(file), std::move(op)); code != SQLITE_OK) return code;
  return System(file)->pMethods->xTruncate(System(file), size);
}
int Sync(sqlite3_file* file, int) {
  RecordedFile* const recorded = Of(file);
  if (const int code = Note(recorded, {.kind = Kind::kSync}); code != SQLITE_OK) return code;
  if (recorded->vfs != nullptr && recorded->name_unsynced)
    recorded->vfs->log->Add({.kind = Kind::kSyncFolder, .name = FolderOf(recorded->name)});
  recorded->name_unsynced = false;
  return SQLITE_OK;
}
// A hint of the size to come makes the file longer, unrecorded: it is not passed on.
int FileControl(sqlite3_file* file, int op, void* argument) {
  if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_NOTFOUND;
  return System(file)->pMethods->xFileControl(System(file), op, argument);
}

constexpr sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods = sqlite::ForwardingMethods<System>();
  methods.xClose = Close;
  methods.xWrite = Write;
  methods.xTruncate = Truncate;
  methods.xSync = Sync;
  methods.xFileControl = FileControl;
  return methods;
}();

std::string NameOf(Impl impl, const char* path) {
  std::string name = fs::path(path).lexically_relative(impl->root).string();
  INFERSCALE_ASSERT(!name.starts_with(".."));
  return name;
}

int Open(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  const Impl impl = static_cast<Impl>(vfs->pAppData);
  RecordedFile* const recorded = ::new (file) RecordedFile;
  if (path != nullptr && (flags & (SQLITE_OPEN_MAIN_DB | SQLITE_OPEN_MAIN_JOURNAL | SQLITE_OPEN_WAL)) != 0) {
    recorded->vfs = impl;
    recorded->name = NameOf(impl, path);
    if ((flags & SQLITE_OPEN_CREATE) != 0 && !fs::exists(path)) {
      (void)Note(recorded, {.kind = Kind::kCreate});
      recorded->name_unsynced = (flags & SQLITE_OPEN_MAIN_DB) == 0;
    }
  }
  std::memset(recorded->system(), 0, static_cast<size_t>(impl->system->szOsFile));
  const int code = impl->system->xOpen(impl->system, path, recorded->system(), flags, out_flags);
  if (code == SQLITE_OK) {
    recorded->base.pMethods = &kMethods;
  } else {
    recorded->~RecordedFile();
    file->pMethods = nullptr;
  }
  return code;
}

int Delete(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  const Impl impl = static_cast<Impl>(vfs->pAppData);
  const std::string name = NameOf(impl, path);
  if (fs::exists(path)) impl->log->Add({.kind = Kind::kUnlink, .name = name});
  if (sync_folder != 0) impl->log->Add({.kind = Kind::kSyncFolder, .name = FolderOf(name)});
  return impl->system->xDelete(impl->system, path, 0);
}

sqlite3_vfs* SystemOf(sqlite3_vfs* vfs) { return static_cast<Impl>(vfs->pAppData)->system; }

}  // namespace

RecordingVfs::RecordingVfs(fs::path root, FileOpLog* log) : impl_(std::make_unique<Impl>()) {
  static std::atomic<int> number = 0;
  sqlite::ClearFreedMemory();                // which comes before SQLite's first use
  impl_->root = fs::weakly_canonical(root);  // as SQLite names its files
  impl_->log = log;
  impl_->name = "recording" + std::to_string(number++);
  impl_->system = sqlite3_vfs_find(nullptr);
  impl_->vfs = sqlite::ForwardingVfs<SystemOf>(*impl_->system, impl_->name.c_str(), sizeof(RecordedFile), impl_.get());
  impl_->vfs.xOpen = Open;
  impl_->vfs.xDelete = Delete;
  INFERSCALE_ASSERT(sqlite3_vfs_register(&impl_->vfs, 0) == SQLITE_OK);
}

RecordingVfs::~RecordingVfs() { sqlite3_vfs_unregister(&impl_->vfs); }

const std::string& RecordingVfs::name() const { return impl_->name; }

void RecordingVfs::FailBy(std::function<int(const FileOp&)> before) { impl_->before = std::move(before); }

}  // namespace inferscale
