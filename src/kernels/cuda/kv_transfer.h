// The CUDA kernels: one launch moves all records of all requests of an engine's step, in every layer. docs/cuda.md.
#pragma once

#include <cstdint>

#include "kernels/kv_plan.h"

struct CUstream_st;  // cudaStream_t is a pointer to it; this header needs no CUDA

namespace inferscale::kernels {

// Records -> cache, and cache -> records; what exactly: kernels/cpu/kv_transfer.h, whose arithmetic this is.
//
// plan: a view of a plan that lies in device memory, or in host memory mapped for the device; it and all that it points
// to must stay until the launch has ended on `stream`. Nothing is allocated, nothing waits. The status words are valid
// when the launch has ended: zero them before a plan is used again. Any thread; the stream belongs to the current
// device. Returns a cudaError_t: 0 when launched, else nothing was.
int InjectCuda(const KvPlanView& plan, CUstream_st* stream);
int ExtractCuda(const KvPlanView& plan, CUstream_st* stream);

// Pairs (layer, head) that a thread block of the vector kernels moves, for benchmarks to change; 0: chosen by the
// amount of work.
struct KvLaunchOptions {
  uint32_t pairs_per_block = 0;
};
int InjectCuda(const KvPlanView& plan, CUstream_st* stream, KvLaunchOptions options);

}  // namespace inferscale::kernels
