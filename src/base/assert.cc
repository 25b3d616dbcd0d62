#include "base/assert.h"

#include <cstdio>
#include <cstdlib>

namespace inferscale {

void AssertFailed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "inferscale: internal error: %s (%s:%d). Please report this.\n", condition, file, line);
  std::abort();
}

}  // namespace inferscale
