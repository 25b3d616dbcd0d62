#include "core/payload_pool.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>

#include "base/assert.h"
#include "base/limits.h"
#include "core/kv_record_format.h"

#if defined(__SANITIZE_ADDRESS__)
#define INFERSCALE_POOL_BUFFERS 0  // a kept buffer would hide a use after free
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(memory_sanitizer)
#define INFERSCALE_POOL_BUFFERS 0
#endif
#endif
#ifndef INFERSCALE_POOL_BUFFERS
#define INFERSCALE_POOL_BUFFERS 1
#endif

namespace inferscale {

namespace {

// Records differ in length: sizes are rounded up, so that a buffer fits many of them. Small ones are malloc's business.
constexpr size_t kGranule = 64 * 1024;

size_t Rounded(size_t bytes) {
  if (bytes < kGranule) return AlignRecord(bytes > 0 ? bytes : 1);
  return (bytes + kGranule - 1) / kGranule * kGranule;
}

struct Pool {
  std::mutex mutex;
  std::multimap<size_t, void*> free;  // by size
  size_t free_bytes = 0;
};

// Never destroyed: records may be freed after main.
Pool& ThePool() {
  static Pool* const pool = std::make_unique<Pool>().release();
  return *pool;
}

}  // namespace

void* TakePayloadBuffer(size_t bytes) {
  const size_t size = Rounded(bytes);
  if (INFERSCALE_POOL_BUFFERS && size >= kGranule) {
    Pool& pool = ThePool();
    std::lock_guard lock(pool.mutex);
    if (const auto found = pool.free.find(size); found != pool.free.end()) {
      void* const buffer = found->second;
      pool.free.erase(found);
      pool.free_bytes -= size;
      return buffer;
    }
  }
  void* const buffer = std::aligned_alloc(kRecordAlignment, size);
  INFERSCALE_ASSERT(buffer != nullptr);
  return buffer;
}

void GivePayloadBuffer(void* buffer, size_t bytes) {
  const size_t size = Rounded(bytes);
  explicit_bzero(buffer, bytes);  // a forgotten fact's keys must not stay in memory: 70 µs for 700 KB
  if (INFERSCALE_POOL_BUFFERS && size >= kGranule) {
    Pool& pool = ThePool();
    std::lock_guard lock(pool.mutex);
    if (pool.free_bytes + size <= limits::kPayloadPoolBytes) {
      pool.free.emplace(size, buffer);
      pool.free_bytes += size;
      return;
    }
  }
  std::free(buffer);
}

}  // namespace inferscale
