// Chooses the kernel of a plan: one for each record encoding and cache type, and one that reads both from the plan.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {

// The kernels for plans that vectors do not fit.
int InjectRowsCuda(const KvPlanView& plan, cudaStream_t stream);
int ExtractRowsCuda(const KvPlanView& plan, cudaStream_t stream);

// Multiprocessors of the current device; 0 when there is none.
inline uint32_t Multiprocessors() {
  int device = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) return 0;
  return static_cast<uint32_t>(count);
}

// Measured on an H200 (docs/performance/h200_inject.md). A launch that is short enough is one wave of equal blocks. A
// longer one begins with large chunks, whose starts (reads of the plan that wait for each other) cost little, and ends
// with small ones, about 16 pairs for each block that a multiprocessor holds, so that all of them end together.
inline PairChunks ChooseChunks(uint64_t token_blocks, uint32_t pairs, uint32_t multiprocessors,
                               KvLaunchOptions options) {
  if (options.pairs_per_block > 0) {
    const uint32_t all = std::min(options.pairs_per_block, kMaxPairsPerBlock);
    return {all, pairs / all, all};
  }
  constexpr uint32_t kOneWave = 24, kFirst = 32, kLast = 8, kLatePairs = 16;
  const uint64_t slots = uint64_t{std::max(1u, multiprocessors)} * kBlocksPerSm;
  const uint64_t blocks_of_one = std::max<uint64_t>(1, slots / token_blocks);  // blocks per token block in one wave
  const auto one_wave = static_cast<uint32_t>((pairs + blocks_of_one - 1) / blocks_of_one);
  if (one_wave <= kOneWave) return {one_wave, pairs / one_wave, one_wave};
  const auto late = static_cast<uint32_t>(std::min<uint64_t>(pairs / 2, slots * kLatePairs / token_blocks));
  const uint32_t first = std::min(kFirst, pairs - late);  // models with few heads and layers: one large chunk
  return {first, (pairs - late) / first, kLast};
}

template <class Launch, int kEncoding>
void LaunchForType(const KvPlanView& plan, CacheType type, cudaStream_t stream, uint32_t blocks, PairChunks chunks) {
  switch (type) {
    case CacheType::kBf16:
      return Launch::template Run<kEncoding, int(CacheType::kBf16)>(plan, stream, blocks, chunks);
    case CacheType::kF16:
      return Launch::template Run<kEncoding, int(CacheType::kF16)>(plan, stream, blocks, chunks);
    case CacheType::kFp8E4m3:
      return Launch::template Run<kEncoding, int(CacheType::kFp8E4m3)>(plan, stream, blocks, chunks);
  }
}

template <class Launch>
void LaunchForEncoding(const KvPlanView& plan, PayloadEncoding encoding, CacheType type, cudaStream_t stream,
                       uint32_t blocks, PairChunks chunks) {
  switch (encoding) {
    case PayloadEncoding::kF16:
      return LaunchForType<Launch, int(PayloadEncoding::kF16)>(plan, type, stream, blocks, chunks);
    case PayloadEncoding::kBf16:
      return LaunchForType<Launch, int(PayloadEncoding::kBf16)>(plan, type, stream, blocks, chunks);
    case PayloadEncoding::kInt8:
      return LaunchForType<Launch, int(PayloadEncoding::kInt8)>(plan, type, stream, blocks, chunks);
    case PayloadEncoding::kInt4:
      return LaunchForType<Launch, int(PayloadEncoding::kInt4)>(plan, type, stream, blocks, chunks);
  }
}

// Launch::Run<encoding, type>(plan, stream, blocks, chunks) launches a kernel of kv_thread.cuh's work.
template <class Launch>
int LaunchVectors(const KvPlanView& plan, cudaStream_t stream, KvLaunchOptions options) {
  const uint32_t pairs = plan.layer_count * plan.shape.heads, tokens = TokensPerBlock(plan.shape);
  const uint64_t token_blocks = (uint64_t{plan.token_count} + tokens - 1) / tokens;
  const PairChunks chunks = ChooseChunks(token_blocks, pairs, Multiprocessors(), options);
  const uint64_t blocks = token_blocks * chunks.Count(pairs);
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  if (plan.one_encoding && plan.one_type) {
    LaunchForEncoding<Launch>(plan, plan.encoding, plan.type, stream, static_cast<uint32_t>(blocks), chunks);
  } else {
    Launch::template Run<kAny, kAny>(plan, stream, static_cast<uint32_t>(blocks), chunks);
  }
  return cudaGetLastError();
}

}  // namespace inferscale::kernels
