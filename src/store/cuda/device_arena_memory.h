// A KvArena's memory on a GPU: one allocation, and a stream beside the compute stream. Copies from host memory are
// made by the copy engine, all of a batch in one call: a call for each takes 3 µs more a piece, and a kernel that reads
// host memory is slower at every size and takes multiprocessors (docs/performance/h200_host_tier.md).
#pragma once

#include <cstdint>
#include <memory>

#include "store/arena_memory.h"

struct CUstream_st;

namespace inferscale {

// On the current device; bytes are rounded down to slabs and zeroed. compute: the stream that will read the arena; it
// must outlive it. Host memory that is loaded from is pinned and mapped (cudaHostAlloc, cudaHostRegister), else copies
// are slow and origins are not readable. kNoSpace: the device has less free memory, and says how much.
Result<std::unique_ptr<ArenaMemory>> MakeDeviceArenaMemory(uint64_t bytes, CUstream_st* compute);

}  // namespace inferscale
