// Exact top-k on the CPU: what a build without a GPU runs, and the reference of the CUDA kernels.
#pragma once

#include "kernels/topk.h"

namespace inferscale::kernels {

// args: as CheckTopk wants them, all pointers the host's. One thread; any thread. Allocates 16 bytes per k and the
// query as f32.
void TopkCpu(const TopkArgs& args);

}  // namespace inferscale::kernels
