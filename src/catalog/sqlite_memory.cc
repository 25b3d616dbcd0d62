#include "catalog/sqlite_memory.h"

#include <sqlite3.h>
#include <string.h>

#include <algorithm>
#include <mutex>

namespace inferscale::sqlite {

namespace {

sqlite3_mem_methods g_default;  // constant after ClearFreedMemory

// SQLite copies a block that it has not filled into the file beside its log when it recovers a log without a whole
// transaction: whatever the heap had there would be in the data folder.
void* ZeroedMalloc(int size) {
  void* block = g_default.xMalloc(size);
  if (block != nullptr) memset(block, 0, static_cast<size_t>(size));
  return block;
}

void ClearingFree(void* block) {
  if (block == nullptr) return;
  explicit_bzero(block, static_cast<size_t>(g_default.xSize(block)));
  g_default.xFree(block);
}

// The default one may move the block and leave a copy behind.
void* ClearingRealloc(void* block, int size) {
  void* grown = g_default.xMalloc(size);
  if (grown == nullptr) return nullptr;
  memcpy(grown, block, static_cast<size_t>(std::min(size, g_default.xSize(block))));
  ClearingFree(block);
  return grown;
}

}  // namespace

void ClearFreedMemory() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (sqlite3_config(SQLITE_CONFIG_GETMALLOC, &g_default) != SQLITE_OK) return;
    sqlite3_mem_methods clearing = g_default;
    clearing.xMalloc = ZeroedMalloc;
    clearing.xFree = ClearingFree;
    clearing.xRealloc = ClearingRealloc;
    (void)sqlite3_config(SQLITE_CONFIG_MALLOC, &clearing);
    (void)sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0);
  });
}

}  // namespace inferscale::sqlite
