// Chooses the kernel of a plan: one for each record encoding and cache type, and one that reads both from the plan.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
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

// Pairs that a block moves one after the other. Few: its start (three reads that wait for each other, and the table)
// costs as much time as kStartPairs pairs do. Many: the last wave of blocks leaves multiprocessors idle. So: the number
// with the shortest estimate of waves x block.
inline uint32_t ChoosePairsPerBlock(uint64_t token_blocks, uint32_t pairs, uint32_t multiprocessors) {
  constexpr double kStartPairs = 4;
  constexpr double kManyWaves = 4;  // from here on blocks end at so different times that there is no last wave
  const double slots = std::max(1u, multiprocessors) * kBlocksPerSm;
  uint32_t best = 1;
  double best_cost = 1e300;
  for (uint32_t per_block = 1; per_block <= std::min(pairs, kMaxPairsPerBlock); ++per_block) {
    const double waves = static_cast<double>(token_blocks * ((pairs + per_block - 1) / per_block)) / slots;
    const double cost = (waves < kManyWaves ? std::ceil(waves) : waves + 0.5) * (per_block + kStartPairs);
    if (cost < best_cost) best = per_block, best_cost = cost;
  }
  return best;
}

template <class Launch, int kEncoding>
void LaunchForType(const KvPlanView& plan, CacheType type, cudaStream_t stream, uint32_t blocks, uint32_t pairs) {
  switch (type) {
    case CacheType::kBf16:
      return Launch::template Run<kEncoding, int(CacheType::kBf16)>(plan, stream, blocks, pairs);
    case CacheType::kF16:
      return Launch::template Run<kEncoding, int(CacheType::kF16)>(plan, stream, blocks, pairs);
    case CacheType::kFp8E4m3:
      return Launch::template Run<kEncoding, int(CacheType::kFp8E4m3)>(plan, stream, blocks, pairs);
  }
}

template <class Launch>
void LaunchForEncoding(const KvPlanView& plan, PayloadEncoding encoding, CacheType type, cudaStream_t stream,
                       uint32_t blocks, uint32_t pairs) {
  switch (encoding) {
    case PayloadEncoding::kF16:
      return LaunchForType<Launch, int(PayloadEncoding::kF16)>(plan, type, stream, blocks, pairs);
    case PayloadEncoding::kBf16:
      return LaunchForType<Launch, int(PayloadEncoding::kBf16)>(plan, type, stream, blocks, pairs);
    case PayloadEncoding::kInt8:
      return LaunchForType<Launch, int(PayloadEncoding::kInt8)>(plan, type, stream, blocks, pairs);
    case PayloadEncoding::kInt4:
      return LaunchForType<Launch, int(PayloadEncoding::kInt4)>(plan, type, stream, blocks, pairs);
  }
}

// Launch::Run<encoding, type>(plan, stream, blocks, pairs_per_block) launches a kernel of kv_thread.cuh's work.
template <class Launch>
int LaunchVectors(const KvPlanView& plan, cudaStream_t stream, KvLaunchOptions options) {
  const uint32_t pairs = plan.layer_count * plan.shape.heads, tokens = TokensPerBlock(plan.shape);
  const uint64_t token_blocks = (uint64_t{plan.token_count} + tokens - 1) / tokens;
  const uint32_t per_block = options.pairs_per_block > 0 ? std::min(options.pairs_per_block, kMaxPairsPerBlock)
                                                         : ChoosePairsPerBlock(token_blocks, pairs, Multiprocessors());
  const uint64_t blocks = token_blocks * ((pairs + per_block - 1) / per_block);
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  if (plan.one_encoding && plan.one_type) {
    LaunchForEncoding<Launch>(plan, plan.encoding, plan.type, stream, static_cast<uint32_t>(blocks), per_block);
  } else {
    Launch::template Run<kAny, kAny>(plan, stream, static_cast<uint32_t>(blocks), per_block);
  }
  return cudaGetLastError();
}

}  // namespace inferscale::kernels
