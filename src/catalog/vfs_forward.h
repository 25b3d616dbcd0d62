// What a shim over another SQLite VFS passes on: all of it, to begin with; the shim replaces the calls that it is for.
#pragma once

#include <sqlite3.h>

namespace inferscale::sqlite {

// kBase: from a shim's file to the file below it. Version 2: without the calls that map a file, so that every byte goes
// through xRead and xWrite.
template <sqlite3_file* (*kBase)(sqlite3_file*)>
constexpr sqlite3_io_methods ForwardingMethods() {
  using File = sqlite3_file;
  using Int64 = sqlite3_int64;
  sqlite3_io_methods m{};
  m.iVersion = 2;
  m.xClose = [](File* f) { return kBase(f)->pMethods->xClose(kBase(f)); };
  m.xRead = [](File* f, void* to, int n, Int64 at) { return kBase(f)->pMethods->xRead(kBase(f), to, n, at); };
  m.xWrite = [](File* f, const void* b, int n, Int64 at) { return kBase(f)->pMethods->xWrite(kBase(f), b, n, at); };
  m.xTruncate = [](File* f, Int64 size) { return kBase(f)->pMethods->xTruncate(kBase(f), size); };
  m.xSync = [](File* f, int flags) { return kBase(f)->pMethods->xSync(kBase(f), flags); };
  m.xFileSize = [](File* f, Int64* size) { return kBase(f)->pMethods->xFileSize(kBase(f), size); };
  m.xLock = [](File* f, int level) { return kBase(f)->pMethods->xLock(kBase(f), level); };
  m.xUnlock = [](File* f, int level) { return kBase(f)->pMethods->xUnlock(kBase(f), level); };
  m.xCheckReservedLock = [](File* f, int* out) { return kBase(f)->pMethods->xCheckReservedLock(kBase(f), out); };
  m.xFileControl = [](File* f, int op, void* arg) { return kBase(f)->pMethods->xFileControl(kBase(f), op, arg); };
  m.xSectorSize = [](File* f) { return kBase(f)->pMethods->xSectorSize(kBase(f)); };
  m.xDeviceCharacteristics = [](File* f) { return kBase(f)->pMethods->xDeviceCharacteristics(kBase(f)); };
  m.xShmMap = [](File* f, int page, int size, int extend, void volatile** out) {
    return kBase(f)->pMethods->xShmMap(kBase(f), page, size, extend, out);
  };
  m.xShmLock = [](File* f, int at, int n, int flags) { return kBase(f)->pMethods->xShmLock(kBase(f), at, n, flags); };
  m.xShmBarrier = [](File* f) { kBase(f)->pMethods->xShmBarrier(kBase(f)); };
  m.xShmUnmap = [](File* f, int remove) { return kBase(f)->pMethods->xShmUnmap(kBase(f), remove); };
  return m;
}

// kBase: from a shim to the VFS below it, which wants to see itself. name: lives as long as the shim. file_bytes: of
// the shim's own part of a file, which stands in front of the base's. xOpen is the shim's to set.
template <sqlite3_vfs* (*kBase)(sqlite3_vfs*)>
sqlite3_vfs ForwardingVfs(const sqlite3_vfs& base, const char* name, int file_bytes, void* app_data) {
  using Vfs = sqlite3_vfs;
  sqlite3_vfs v{};
  v.iVersion = 2;
  v.szOsFile = file_bytes + base.szOsFile;
  v.mxPathname = base.mxPathname;
  v.zName = name;
  v.pAppData = app_data;
  v.xDelete = [](Vfs* s, const char* path, int sync) { return kBase(s)->xDelete(kBase(s), path, sync); };
  v.xAccess = [](Vfs* s, const char* path, int flags, int* out) {
    return kBase(s)->xAccess(kBase(s), path, flags, out);
  };
  v.xFullPathname = [](Vfs* s, const char* path, int size, char* out) {
    return kBase(s)->xFullPathname(kBase(s), path, size, out);
  };
  v.xRandomness = [](Vfs* s, int size, char* out) { return kBase(s)->xRandomness(kBase(s), size, out); };
  v.xSleep = [](Vfs* s, int micros) { return kBase(s)->xSleep(kBase(s), micros); };
  v.xCurrentTime = [](Vfs* s, double* out) { return kBase(s)->xCurrentTime(kBase(s), out); };
  v.xGetLastError = [](Vfs* s, int size, char* out) { return kBase(s)->xGetLastError(kBase(s), size, out); };
  v.xCurrentTimeInt64 = [](Vfs* s, sqlite3_int64* out) { return kBase(s)->xCurrentTimeInt64(kBase(s), out); };
  return v;
}

}  // namespace inferscale::sqlite
