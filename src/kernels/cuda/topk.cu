// Exact top-k: scores in tiles, candidates in lists, one merge per query. docs/cuda.md explains the design.
#include "kernels/cuda/topk.h"

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/cuda/topk_lists.cuh"
#include "kernels/cuda/topk_merge.cuh"
#include "kernels/cuda/topk_tile.cuh"

namespace inferscale::kernels {
namespace {

// Two for each multiprocessor of an H200, which all run at once; no more, since each has lists of its own. A constant,
// so that the workspace's size is known without a device; more multiprocessors (B200: 148) find some idle.
constexpr uint32_t kScoreBlocks = 264;
static_assert(kScoreBlocks <= kMergeSlices);

TopkWork WorkOf(const TopkArgs& args) {
  TopkWork work{};
  work.tile_queries = args.query_count <= 8 ? 8 : args.query_count <= 32 ? 32 : 128;
  work.groups = (args.query_count + work.tile_queries - 1) / work.tile_queries;
  const uint32_t tiles = (args.rows + kTileRows - 1) / kTileRows;
  work.slices = std::clamp(kScoreBlocks / work.groups, 1u, std::max(tiles, 1u));
  work.trigger = args.k + std::max(64u, args.k / 2);  // the more, the fewer cuts
  work.most = args.k + std::max(16u, args.k / 8);
  work.capacity = work.trigger + kTileRows;
  work.longest = work.slices * work.capacity <= kSortKeys ? work.capacity : work.most;
  return work;
}

size_t KeysBytes(const TopkArgs& args, const TopkWork& work) {
  return size_t{args.query_count} * work.slices * work.capacity * sizeof(uint64_t);
}

// Where a block is: step s of tile t.
class Walk {
 public:
  __device__ Walk(const TopkArgs& args, const TopkWork& work, uint32_t slice)
      : args_(args),
        slices_(work.slices),
        tiles_((args.rows + kTileRows - 1) / kTileRows),
        steps_((args.dim * BytesPerElement(args.type) + kStepBytes - 1) / kStepBytes),
        tile(slice) {
    SkipEmpty();
  }
  __device__ bool AtEnd() const { return tile >= tiles_; }
  __device__ bool AtLastStep() const { return step + 1 == steps_; }
  __device__ void Next() {
    if (++step < steps_) return;
    step = 0, tile += slices_;
    SkipEmpty();
  }

 private:
  // Tiles without a row of the mask are not read.
  __device__ void SkipEmpty() {
    if (args_.mask == nullptr) return;
    const uint32_t words = (args_.rows + 63) / 64;
    for (; tile < tiles_; tile += slices_) {
      const uint32_t w = tile * (kTileRows / 64);
      if (args_.mask[w] != 0 || (w + 1 < words && args_.mask[w + 1] != 0)) return;
    }
  }

  const TopkArgs& args_;
  const uint32_t slices_, tiles_, steps_;

 public:
  uint32_t tile;
  uint32_t step = 0;
};

// Starts the copies of a stage: 16 bytes of each vector a thread.
template <int kQueries>
__device__ void LoadStage(const TopkArgs& args, const Walk& walk, uint32_t first_query, uint8_t* stage) {
  const uint32_t chunk = threadIdx.x % kStepChunks, offset = walk.step * kStepBytes + chunk * 16;
  const uint32_t all = args.dim * BytesPerElement(args.type);
  const uint32_t bytes = offset < all ? min(16u, all - offset) : 0;
  const auto* vectors = static_cast<const uint8_t*>(args.vectors);
#pragma unroll
  for (uint32_t r = threadIdx.x / kStepChunks; r < kTileRows; r += kScoreThreads / kStepChunks) {
    const uint32_t row = walk.tile * kTileRows + r;
    const bool wanted = row < args.rows && bytes > 0 && IsTopkCandidate(args, row);
    const uint8_t* from = wanted ? vectors + row * args.vector_stride + offset : vectors;
    CopyAsyncFill(stage + StageOffset(r, chunk), from, wanted ? bytes : 0);
  }
  const auto* queries = static_cast<const uint8_t*>(args.queries);
#pragma unroll
  for (uint32_t q = threadIdx.x / kStepChunks; q < kQueries; q += kScoreThreads / kStepChunks) {
    const bool wanted = first_query + q < args.query_count && bytes > 0;
    const uint8_t* from = wanted ? queries + (first_query + q) * args.query_stride + offset : queries;
    CopyAsyncFill(stage + (kTileRows * kStepBytes + StageOffset(q, chunk)), from, wanted ? bytes : 0);
  }
}

// Returns whether one of the thread's lists has to be cut.
template <VectorType kType, int kQueries>
__device__ bool OfferTile(const TopkArgs& args, const TopkWork& work, const TileSums<kType, kQueries>& tile,
                          BlockLists<kQueries>& lists, uint32_t first_row, uint32_t first_query, uint32_t slice) {
  using Shape = TileShape<kQueries>;
  bool full = false;
#pragma unroll
  for (int m = 0; m < Shape::kDown; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const uint32_t row = first_row + tile.Row(m, half);
      float scale = 1.0f;
      if (kType == VectorType::kInt8 && args.vector_scales != nullptr && row < args.rows) {
        scale = __ldg(args.vector_scales + row);
      }
#pragma unroll
      for (int n = 0; n < Shape::kAcross; ++n) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          const uint32_t q = tile.Query(n, j);
          auto score = static_cast<float>(tile.sums[m][n][2 * half + j]);
          if (kType == VectorType::kInt8) score = __fmul_rn(score, __fmul_rn(lists.scale[q], scale));
          if (score < lists.least[q]) continue;  // NaN goes on
          full |= lists.Offer(args, work, work.List(first_query + q, slice), q, row, score);
        }
      }
    }
  }
  return full;
}

template <VectorType kType, int kQueries>
__global__ void __launch_bounds__(kScoreThreads, 2)
    ScoreRows(const __grid_constant__ TopkArgs args, const __grid_constant__ TopkWork work) {
  using Shape = TileShape<kQueries>;
  extern __shared__ __align__(128) uint8_t stages[];
  __shared__ BlockLists<kQueries> lists;
  const uint32_t slice = blockIdx.x / work.groups, first_query = blockIdx.x % work.groups * kQueries;
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // MergeLists may start, and waits for this kernel's end
#endif
  lists.Begin(args, first_query);
  Walk loads(args, work, slice), here = loads;
  uint32_t load_stage = 0, stage = 0;
  const auto load = [&] {
    if (!loads.AtEnd()) {
      LoadStage<kQueries>(args, loads, first_query, stages + load_stage * Shape::kStageBytes);
      loads.Next();
      load_stage = load_stage + 1 == Shape::kStages ? 0 : load_stage + 1;
    }
    CommitCopies();
  };
  for (int i = 0; i + 1 < Shape::kStages; ++i) load();
  TileSums<kType, kQueries> tile;
  tile.Zero();
  while (!here.AtEnd()) {
    AwaitCopies<Shape::kStages - 2>();
    __syncthreads();  // the stage is there for all, and nobody reads the one before any more
    load();
    tile.Add(stages + stage * Shape::kStageBytes);
    stage = stage + 1 == Shape::kStages ? 0 : stage + 1;
    const bool ends = here.AtLastStep();
    const uint32_t first_row = here.tile * kTileRows;
    here.Next();
    if (!ends) continue;
    const bool full = OfferTile(args, work, tile, lists, first_row, first_query, slice);
    tile.Zero();
    if (__syncthreads_or(full) && !here.AtEnd()) {
      lists.Cut(args, work, first_query, slice, work.trigger);
      __syncthreads();
    }
  }
  __syncthreads();
  lists.Cut(args, work, first_query, slice, work.longest);
  __syncthreads();
  for (uint32_t q = threadIdx.x; q < kQueries && first_query + q < args.query_count; q += kScoreThreads) {
    work.counts[(first_query + q) * work.slices + slice] = lists.count[q];
  }
}

__global__ void __launch_bounds__(kMergeThreads)
    MergeLists(const __grid_constant__ TopkArgs args, const __grid_constant__ TopkWork work) {
  __shared__ MergeMemory memory;
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
  const uint32_t count = Merge(args, work, memory, blockIdx.x).Run();
  for (uint32_t i = threadIdx.x; i < args.k; i += kMergeThreads) {
    const bool there = i < count;
    const uint64_t key = there ? memory.keys[i] : 0;
    const uint32_t row = there ? TopkRow(key) : kNoTopkRow;
    const uint64_t at = uint64_t{blockIdx.x} * args.k + i;
    args.out_rows[at] = row;
    args.out_scores[at] = there ? TopkScore(key) : __uint_as_float(0xFF800000u);  // -infinity
    if (args.slots != nullptr) args.out_slots[at] = there ? args.slots[row] : kNoTopkRow;
  }
}

template <VectorType kType, int kQueries>
cudaError_t LaunchScores(const TopkArgs& args, const TopkWork& work, cudaStream_t stream) {
  constexpr uint32_t kBytes = TileShape<kQueries>::kStages * TileShape<kQueries>::kStageBytes;
  const auto kernel = ScoreRows<kType, kQueries>;
  const cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (error != cudaSuccess) return error;
  kernel<<<work.groups * work.slices, kScoreThreads, kBytes, stream>>>(args, work);
  return cudaGetLastError();
}

template <VectorType kType>
cudaError_t LaunchScores(const TopkArgs& args, const TopkWork& work, cudaStream_t stream) {
  switch (work.tile_queries) {
    case 8:
      return LaunchScores<kType, 8>(args, work, stream);
    case 32:
      return LaunchScores<kType, 32>(args, work, stream);
    default:
      return LaunchScores<kType, 128>(args, work, stream);
  }
}

// Where the device can, its blocks are started before the scores' end, which saves the start's time.
cudaError_t LaunchMerge(const TopkArgs& args, const TopkWork& work, cudaStream_t stream) {
  int device = 0, major = 0;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  if (error != cudaSuccess) return error;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(args.query_count);
  config.blockDim = dim3(kMergeThreads);
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = major >= 9 ? 1 : 0;
  return cudaLaunchKernelEx(&config, MergeLists, args, work);
}

}  // namespace

size_t TopkWorkspaceBytes(const TopkArgs& args) {
  if (args.query_count == 0 || args.k == 0) return 0;
  const TopkWork work = WorkOf(args);
  return KeysBytes(args, work) + size_t{args.query_count} * work.slices * sizeof(uint32_t);
}

int TopkCuda(const TopkArgs& args, void* workspace, CUstream_st* stream) {
  if (args.query_count == 0 || args.k == 0) return cudaSuccess;
  TopkWork work = WorkOf(args);
  work.keys = static_cast<uint64_t*>(workspace);
  work.counts = reinterpret_cast<uint32_t*>(static_cast<uint8_t*>(workspace) + KeysBytes(args, work));
  const cudaError_t error = args.type == VectorType::kF16 ? LaunchScores<VectorType::kF16>(args, work, stream)
                                                          : LaunchScores<VectorType::kInt8>(args, work, stream);
  return error != cudaSuccess ? error : LaunchMerge(args, work, stream);
}

}  // namespace inferscale::kernels
