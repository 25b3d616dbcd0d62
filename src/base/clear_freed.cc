#include "base/clear_freed.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace inferscale {
bool FreedHeapIsCleared() { return false; }
}  // namespace inferscale

#else

namespace inferscale {

bool FreedHeapIsCleared() { return true; }

namespace {

// glibc maps a large block by itself, notes it in the word before the block, and unmaps it when it is freed. To clear
// one would bring in pages that were never used.
bool IsMapped([[maybe_unused]] const void* block) {
#ifdef __GLIBC__
  constexpr size_t kIsMapped = 2;
  return (static_cast<const size_t*>(block)[-1] & kIsMapped) != 0;
#else
  return false;
#endif
}

// The library's operator new takes its memory from malloc, whatever the alignment.
void ClearAndFree(void* block) noexcept {
  if (block == nullptr) return;
  if (!IsMapped(block)) explicit_bzero(block, malloc_usable_size(block));
  ::free(block);
}

}  // namespace

}  // namespace inferscale

using inferscale::ClearAndFree;

void operator delete(void* block) noexcept { ClearAndFree(block); }
void operator delete[](void* block) noexcept { ClearAndFree(block); }
void operator delete(void* block, size_t) noexcept { ClearAndFree(block); }
void operator delete[](void* block, size_t) noexcept { ClearAndFree(block); }
void operator delete(void* block, const std::nothrow_t&) noexcept { ClearAndFree(block); }
void operator delete[](void* block, const std::nothrow_t&) noexcept { ClearAndFree(block); }
void operator delete(void* block, std::align_val_t) noexcept { ClearAndFree(block); }
void operator delete[](void* block, std::align_val_t) noexcept { ClearAndFree(block); }
void operator delete(void* block, size_t, std::align_val_t) noexcept { ClearAndFree(block); }
void operator delete[](void* block, size_t, std::align_val_t) noexcept { ClearAndFree(block); }

#endif
