#include <cuda_runtime.h>

#include "store/cuda/arena_stamps.h"

namespace inferscale {
namespace {

using kernels::RecordStamp;

// The generation of a slot whose bytes are on their way from an origin that was as expected. No record has it.
constexpr uint64_t kOpened = ~uint64_t{0};

__device__ bool OriginIs(const SlotStamp& stamp) {
  if (stamp.origin == nullptr) return true;
  const volatile uint64_t* now = reinterpret_cast<const volatile uint64_t*>(stamp.origin);
  const uint64_t* want = reinterpret_cast<const uint64_t*>(&stamp.stamp);
  bool same = true;
  for (int i = 0; i < 4; ++i) same &= now[i] == want[i];
  return same;
}

__global__ void Open(const __grid_constant__ SlotStamps list) {
  if (threadIdx.x >= list.count) return;
  const SlotStamp& stamp = list.stamps[threadIdx.x];
  RecordStamp opened;
  opened.generation = OriginIs(stamp) ? kOpened : 0;
  *stamp.slot = opened;
}

__global__ void Seal(const __grid_constant__ SlotStamps list) {
  if (threadIdx.x >= list.count) return;
  const SlotStamp& stamp = list.stamps[threadIdx.x];
  const bool good = stamp.slot->generation == kOpened && OriginIs(stamp);
  *stamp.slot = good ? stamp.stamp : RecordStamp();
}

}  // namespace

int OpenStamps(const SlotStamps& stamps, CUstream_st* stream) {
  Open<<<1, SlotStamps::kMany, 0, stream>>>(stamps);
  return cudaGetLastError();
}

int SealStamps(const SlotStamps& stamps, CUstream_st* stream) {
  Seal<<<1, SlotStamps::kMany, 0, stream>>>(stamps);
  return cudaGetLastError();
}

}  // namespace inferscale
