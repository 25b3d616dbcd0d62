// Records -> paged cache. docs/cuda.md explains the design; kv_thread.cuh how threads are placed.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_reader.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"
#include "kernels/cuda/kv_writer.cuh"

namespace inferscale::kernels {
namespace {

template <bool kKey, int kEncoding, int kType>
__device__ void WriteAll(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, uint32_t count,
                         Stages<kEncoding>* stages, bool once) {
  const auto writer = MakeWriter<kKey, kEncoding, kType>(plan, place, once);
  ThreadRope rope(place);
  ThreadCell cell;
  StageTurn<Stage<kEncoding>::kCount> turn;
  uint32_t last = 0;  // the stage of the pair before
#pragma unroll 1
  for (uint32_t p = 0; p < count; ++p, turn.Next()) {
    if (place.active) {
      cell.Use(plan, place, pairs[p].geometry);
      if (kKey) rope.Use(plan, place, pairs[p].rope, /*inverse=*/false);
    }
    Await(stages->full + turn.index, turn.parity);
    writer.Write(pairs[p], stages->stage[turn.index], rope, cell.offset);
    __syncwarp();
    const uint32_t left = writer.kLag == 0 ? turn.index : last;
    if (threadIdx.x % 32 == 0 && (writer.kLag == 0 || p > 0)) Arrive(stages->empty + left);
    last = turn.index;
  }
  writer.End();
}

template <int kEncoding, int kType>
__global__ void __launch_bounds__(kBlockThreads + kReaderThreads, kBlocksPerSm)
    InjectVectors(const __grid_constant__ KvPlanView plan, PairChunks chunks) {
  __shared__ BlockPair pairs[kMaxPairsPerBlock];
  __shared__ Stages<kEncoding> stages;
  const BlockWork work(plan, chunks);
  FindPairs(plan, work, pairs);
  const bool reads = threadIdx.x >= kBlockThreads;
  ThreadPlace place;
  if (reads) {
    if (threadIdx.x == kBlockThreads) stages.Init();
    place.slot = threadIdx.x - kBlockThreads;
    place.key = true;  // where its rows begin
    PlaceToken(plan, work.tokens, place);
  } else {
    place = FindPlace(plan, work.tokens);
  }
  __syncthreads();
  const uint32_t count = work.end - work.begin;
  if (reads) {
    Reader<kEncoding> reader(plan, place, pairs, &stages, Stage<kEncoding>::Once(chunks));
    reader.ReadAll(count);
    __syncthreads();  // behind it, all reads of the block have arrived
    reader.CheckAfter();
    return;
  }
  if (place.key) {
    WriteAll<true, kEncoding, kType>(plan, place, pairs, count, &stages, Stage<kEncoding>::Once(chunks));
  } else {
    WriteAll<false, kEncoding, kType>(plan, place, pairs, count, &stages, Stage<kEncoding>::Once(chunks));
  }
  __syncthreads();
}

struct Launch {
  template <int kEncoding, int kType>
  static void Run(const KvPlanView& plan, cudaStream_t stream, uint32_t blocks, PairChunks chunks) {
    InjectVectors<kEncoding, kType><<<blocks, kBlockThreads + kReaderThreads, 0, stream>>>(plan, chunks);
  }
};

}  // namespace

int InjectCuda(const KvPlanView& plan, CUstream_st* stream, KvLaunchOptions options) {
  if (plan.token_count == 0 || plan.layer_count == 0) return cudaSuccess;
  return plan.vectors ? LaunchVectors<Launch>(plan, stream, options) : InjectRowsCuda(plan, stream);
}

int InjectCuda(const KvPlanView& plan, CUstream_st* stream) { return InjectCuda(plan, stream, {}); }

}  // namespace inferscale::kernels
