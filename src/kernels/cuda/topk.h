// Exact top-k on the GPU: scores and selection in one pass over the vectors, then a merge. docs/cuda.md.
#pragma once

#include <cstddef>

#include "kernels/topk.h"

struct CUstream_st;  // cudaStream_t is a pointer to it; this header needs no CUDA

namespace inferscale::kernels {

// Device memory that a search of these sizes needs: rows, query_count and k count. Up to 450 MB (256 queries, k 1,024);
// one query with k 50: 0.5 MB.
size_t TopkWorkspaceBytes(const TopkArgs& args);

// args: as CheckTopk wants them, all pointers the device's. workspace: [TopkWorkspaceBytes(args)], aligned to 16 bytes,
// of this launch until it has ended; what is in it does not matter. Nothing is allocated, nothing waits. Any thread;
// the stream belongs to the current device. Returns a cudaError_t: 0 when launched.
int TopkCuda(const TopkArgs& args, void* workspace, CUstream_st* stream);

}  // namespace inferscale::kernels
