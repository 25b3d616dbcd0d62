// A tile of scores: 128 rows against 8, 32 or 128 queries, on tensor cores. Both types take 32 bytes of a vector per
// instruction and place them alike, so that only the instruction and its sums differ.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/kv_async.cuh"
#include "kernels/topk.h"

namespace inferscale::kernels {

constexpr uint32_t kTileRows = 128;
constexpr uint32_t kScoreThreads = 256;
constexpr uint32_t kStepBytes = 128;  // of each vector per stage: a line of the cache
constexpr uint32_t kStepChunks = kStepBytes / 16;

// How the warps of a block share a tile, and the stages of shared memory. Two blocks fit into a multiprocessor (87, 82
// and 98 KB each); one of 99 KB is what small devices allow.
template <int kQueries>
struct TileShape {
  static constexpr int kWarpsAcross = kQueries == 128 ? 4 : 1;  // queries
  static constexpr int kWarpsDown = 8 / kWarpsAcross;           // rows
  static constexpr int kWarpRows = kTileRows / kWarpsDown;
  static constexpr int kWarpQueries = kQueries / kWarpsAcross;
  static constexpr int kDown = kWarpRows / 16;      // instructions, of 16 rows
  static constexpr int kAcross = kWarpQueries / 8;  // of 8 queries
  static constexpr int kStages = kQueries == 8 ? 5 : kQueries == 32 ? 4 : 3;
  static constexpr uint32_t kStageBytes = (kTileRows + kQueries) * kStepBytes;
};

// Chunk c of 16 bytes of row r of a stage: eight rows' chunks of one column are in different banks.
__device__ inline uint32_t StageOffset(uint32_t row, uint32_t chunk) {
  return row * kStepBytes + ((chunk ^ (row & 7)) * 16);
}

// The first `bytes` of 16, zeros behind. Nothing is read when it is 0.
__device__ inline void CopyAsyncFill(uint8_t* shared, const uint8_t* global, uint32_t bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(shared)), "l"(global), "r"(bytes)
               : "memory");
}
__device__ inline void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kLeft of this thread's committed groups are under way.
template <int kLeft>
__device__ inline void AwaitCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}

__device__ inline void LoadMatrices(uint32_t (&out)[4], const uint8_t* lane_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(SharedAddress(lane_row))
               : "memory");
}
__device__ inline void LoadMatrices(uint32_t (&out)[2], const uint8_t* lane_row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(SharedAddress(lane_row))
               : "memory");
}

__device__ inline void MultiplyAdd(float (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
__device__ inline void MultiplyAdd(int32_t (&sum)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+r"(sum[0]), "+r"(sum[1]), "+r"(sum[2]), "+r"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A thread's sums: of rows Row(down, half) and queries Query(across, j), at [down][across][2 * half + j].
template <VectorType kType, int kQueries>
struct TileSums {
  using Shape = TileShape<kQueries>;
  using Sum = std::conditional_t<kType == VectorType::kF16, float, int32_t>;
  Sum sums[Shape::kDown][Shape::kAcross][4];
  const uint32_t lane = threadIdx.x % 32;
  const uint32_t first_row = threadIdx.x / 32 / Shape::kWarpsAcross * Shape::kWarpRows;
  const uint32_t first_query = threadIdx.x / 32 % Shape::kWarpsAcross * Shape::kWarpQueries;

  __device__ uint32_t Row(int down, int half) const { return first_row + down * 16 + half * 8 + lane / 4; }
  __device__ uint32_t Query(int across, int j) const { return first_query + across * 8 + lane % 4 * 2 + j; }

  __device__ void Zero() {
#pragma unroll
    for (auto& row : sums) {
#pragma unroll
      for (auto& four : row) four[0] = four[1] = four[2] = four[3] = 0;
    }
  }

  // Adds the products of a stage: [kTileRows] rows, then [kQueries] queries, of kStepBytes.
  __device__ void Add(const uint8_t* stage) {
    const uint8_t* queries = stage + kTileRows * kStepBytes;
#pragma unroll
    for (uint32_t chunk = 0; chunk < kStepChunks; chunk += 2) {
      uint32_t b[Shape::kAcross][2];
#pragma unroll
      for (int n = 0; n < Shape::kAcross; ++n) {
        LoadMatrices(b[n], queries + StageOffset(first_query + n * 8 + lane % 8, chunk + lane / 8 % 2));
      }
#pragma unroll
      for (int m = 0; m < Shape::kDown; ++m) {
        uint32_t a[4];
        LoadMatrices(a, stage + StageOffset(first_row + m * 16 + lane % 16, chunk + lane / 16));
#pragma unroll
        for (int n = 0; n < Shape::kAcross; ++n) MultiplyAdd(sums[m][n], a, b[n]);
      }
    }
  }
};

}  // namespace inferscale::kernels
