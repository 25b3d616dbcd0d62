#include "capi/allocations_test_util.h"

#include <cstdlib>
#include <new>

namespace {
thread_local size_t allocations = 0;
}

// Not inlined, where they would look like a mismatch to the compiler. The sanitizers have their own.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
void* operator new(size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#endif

namespace inferscale::capi {

size_t AllocationsOfThisThread() { return allocations; }

}  // namespace inferscale::capi
