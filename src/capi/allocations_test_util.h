// Counts what this test program takes with operator new.
#pragma once

#include <cstddef>

namespace inferscale::capi {

// 0 under the sanitizers.
size_t AllocationsOfThisThread();

}  // namespace inferscale::capi
