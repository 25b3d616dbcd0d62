// The stamps of an arena's slots, written by the device around the copies of their bytes.
#pragma once

#include <cstdint>

#include "kernels/kv_payload.h"

struct CUstream_st;

namespace inferscale {

struct SlotStamp {
  kernels::RecordStamp* slot = nullptr;
  const kernels::RecordStamp* origin = nullptr;  // in mapped host memory, or null
  kernels::RecordStamp stamp;
};

// Passed by value: kernel parameters have 4 KB, and there is no list that would have to live on.
struct SlotStamps {
  static constexpr uint32_t kMany = 64;
  uint32_t count = 0;
  SlotStamp stamps[kMany];
};

// Before the bytes: the slots have no valid stamp. After: they have theirs, where the origin had it both times.
// Return a cudaError_t.
int OpenStamps(const SlotStamps& stamps, CUstream_st* stream);
int SealStamps(const SlotStamps& stamps, CUstream_st* stream);

}  // namespace inferscale
