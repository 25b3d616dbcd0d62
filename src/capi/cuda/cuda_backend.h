// A GPU behind the C interface.
#pragma once

#include <memory>

#include "capi/backend.h"

namespace inferscale::capi {

// kVersionUnsupported: no driver, no such device, or no code for it.
Result<std::unique_ptr<Backend>> OpenCudaBackend(int ordinal);

}  // namespace inferscale::capi
