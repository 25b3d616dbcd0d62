// Chooses the kernel of a plan: one for each record encoding and cache type, and one that reads both from the plan.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {

// The kernels for plans that vectors do not fit.
int InjectRowsCuda(const KvPlanView& plan, cudaStream_t stream);
int ExtractRowsCuda(const KvPlanView& plan, cudaStream_t stream);

// Rows that a thread moves one after the other: cosines and sines (64 bytes a thread) are loaded once for them.
inline constexpr uint32_t kPairsPerBlock = 8;

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
  const uint32_t pairs = plan.layer_count * plan.shape.heads;
  const uint32_t per_block = options.pairs_per_block ? options.pairs_per_block : kPairsPerBlock;
  const uint32_t tokens = TokensPerBlock(plan.shape);
  const uint64_t blocks = uint64_t{(plan.token_count + tokens - 1) / tokens} * ((pairs + per_block - 1) / per_block);
  if (blocks > 0x7FFFFFFF) return cudaErrorInvalidConfiguration;
  if (plan.one_encoding && plan.one_type) {
    LaunchForEncoding<Launch>(plan, plan.encoding, plan.type, stream, static_cast<uint32_t>(blocks), per_block);
  } else {
    Launch::template Run<kAny, kAny>(plan, stream, static_cast<uint32_t>(blocks), per_block);
  }
  return cudaGetLastError();
}

}  // namespace inferscale::kernels
