// Records -> paged cache. docs/cuda.md explains the design; kv_thread.cuh how threads are placed.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_async.cuh"
#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_stamp.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {
namespace {

#ifndef KV_S
#define KV_S 5
#endif
// Rows that a thread has under way. 4.2 TB/s times 0.8 µs from a load to its data are 3.4 MB in flight, half of it
// reads: 13 KB for each of 132 multiprocessors. 768 threads with 5 rows have 120 KB of bf16, with 4 rows 24 KB of int4.
constexpr int kStages = KV_S;
constexpr int kQuantisedStages = 4;

// Keys whose calibration is staged in shared memory: the elements of one, and the warps that have them.
constexpr uint32_t kStagedDim = 256;
constexpr uint32_t kStagedWarps = kBlockThreads / 64;

// A block's rows under way. Every thread has its own places, side by side with its neighbours', so nobody waits for
// others. kBytes: of a group of eight elements.
template <int kBytes, bool kQuantised>
struct Stage {
  struct alignas(kBytes) Group {
    uint8_t bytes[kBytes];
  };
  Group first[kBlockThreads];
  Group second[kBlockThreads];
  uint32_t scale[kQuantised ? kBlockThreads : 1];  // of V: the aligned word that has it
  // The key's channels, once per warp: its threads' tokens share a pair, and eight to sixteen of them a channel.
  KeyQuant channels[kQuantised ? kStagedWarps : 1][kQuantised ? kStagedDim : 4];
};

// A thread's two groups of a row.
struct RowBits {
  Bits group[2];
  __half scale;  // of V, when quantised
};

// Eight channels: {scale, zero} each. In shared or in global memory.
__device__ void Dequantise(Eight& x, const KeyQuant* channels) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint4 four = *(reinterpret_cast<const uint4*>(channels) + i);
    const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 channel = __half22float2(As<__half2>(words[j]));
      x.v[4 * i + j] = fmaf(x.v[4 * i + j], channel.x, channel.y);
    }
  }
}

// channels: of the eight elements; only for keys that are quantised.
template <bool kKey>
__device__ Eight Decode(const Bits& bits, __half scale, const KeyQuant* channels, PayloadEncoding encoding) {
  if (encoding == PayloadEncoding::kBf16) return FromBf16(bits);
  if (encoding == PayloadEncoding::kF16) return FromF16(bits);
  const bool wide = encoding == PayloadEncoding::kInt8;
  if constexpr (kKey) {
    Eight x = FromQuanta(bits, wide);
    Dequantise(x, channels);
    return x;
  }
  Eight x = FromSignedQuanta(bits, wide);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.v[i] *= __half2float(scale);
  return x;
}

// channels: of the row's first element.
template <bool kKey>
__device__ void StoreRow(const RowBits& row, const ThreadRope& rope, const BlockPair& pair, int64_t cell,
                         const KeyQuant* channels, PayloadEncoding encoding, CacheType type) {
  const uint32_t bytes = 8 * BytesPerElement(type);
  uint8_t* to = pair.row[kKey] + cell;
  uint8_t* first = to + rope.groups.at[0] * bytes;
  uint8_t* second = to + rope.groups.at[1] * bytes;
  if (SameBits(encoding, type) && !(kKey && rope.groups.turns[0])) {
    StoreBits(first, bytes, row.group[0]);
    StoreBits(second, bytes, row.group[1]);
    return;
  }
  Eight a = Decode<kKey>(row.group[0], row.scale, channels + 8 * rope.groups.at[0], encoding);
  Eight b = Decode<kKey>(row.group[1], row.scale, channels + 8 * rope.groups.at[1], encoding);
  if constexpr (kKey) rope.Apply(a, b);
  if (type == CacheType::kFp8E4m3) {
    const float scale = 1.0f / pair.scale[kKey];
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] *= scale, b.v[i] *= scale;
  }
  StoreBits(first, bytes, ToCache(a, type));
  StoreBits(second, bytes, ToCache(b, type));
}

// What the moving functions of one thread share. kEncoding kAny: stages have room for 16 bytes, calibrations are read
// when they are needed.
template <bool kKey, int kEncoding, int kType>
struct Injection {
  static constexpr bool kMixed = kEncoding == kAny;
  static constexpr bool kQuantised = !kMixed && IsQuantised(static_cast<PayloadEncoding>(kMixed ? 1 : kEncoding));
  static constexpr int kBytes =
      kMixed ? 16 : static_cast<int>(BitsPerElement(static_cast<PayloadEncoding>(kMixed ? 1 : kEncoding)));
  static constexpr int kCount = kQuantised ? kQuantisedStages : kStages;
  using Stages = Stage<kBytes, kQuantised>;

  const KvPlanView& plan;
  const ThreadPlace& place;
  const BlockPair* pairs;
  Stages* stages;
  const PayloadEncoding encoding;
  const RecordRows rows;
  const KeyQuant* calibration;
  const bool staged;  // the calibration, by the warp
  // The reading side runs ahead of the writing side.
  uint32_t read_rope = kNoRope;
  ThreadGroups read_groups;
  ThreadCell read_cell;

  __device__ Injection(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, Stages* stages)
      : plan(plan),
        place(place),
        pairs(pairs),
        stages(stages),
        encoding(kMixed ? place.encoding : static_cast<PayloadEncoding>(kEncoding)),
        rows(plan, place, encoding),
        calibration(kKey && IsQuantised(encoding) && place.active ? plan.sources[place.source].calibration : nullptr),
        staged(kKey && kQuantised && plan.calibration != nullptr && StagesFit(plan.shape)),
        read_groups(place) {}

  // Whole warps have keys, and not too many.
  __device__ static bool StagesFit(const PayloadShape& shape) {
    const uint32_t threads = TokensPerBlock(shape) * (shape.key_dim / 16);
    return shape.key_dim <= kStagedDim && threads % 32 == 0 && threads <= kStagedWarps * 32;
  }

  // Starts the reads of pair p.
  __device__ void Read(uint32_t p, Stages& stage) {
    const BlockPair& pair = pairs[p];
    if (kKey && pair.rope != read_rope) {
      read_rope = pair.rope;
      read_groups = read_rope == kNoRope ? ThreadGroups(place) : ThreadGroups(place, plan.ropes[read_rope]);
    }
    if (kKey && kQuantised && staged) ReadChannels(pair, stage);
    if (!place.active) return;
    if (plan.has_nulls) {
      read_cell.Use(plan, place, pair.geometry);
      if (read_cell.offset == kNoCell) return;
    }
    const uint8_t* row = rows.Row(pair.head, pair.layer);
    ReadGroup(stage.first + threadIdx.x, row + read_groups.at[0] * rows.group_bytes);
    ReadGroup(stage.second + threadIdx.x, row + read_groups.at[1] * rows.group_bytes);
    if (!kKey && kQuantised) {
      const auto at = reinterpret_cast<uintptr_t>(rows.Scale(pair.head, pair.layer));
      CopyAsync<4>(stage.scale + threadIdx.x, reinterpret_cast<const void*>(at & ~uintptr_t{3}));
    }
  }

  template <class Group>
  __device__ void ReadGroup(Group* to, const uint8_t* from) const {
    if constexpr (!kMixed) {
      CopyAsync<kBytes>(to, from);
    } else if (encoding == PayloadEncoding::kInt8) {
      CopyAsync<8>(to, from);
    } else if (encoding == PayloadEncoding::kInt4) {
      CopyAsync<4>(to, from);
    } else {
      CopyAsync<16>(to, from);
    }
  }

  __device__ void ReadChannels(const BlockPair& pair, Stages& stage) const {
    const KeyQuant* row = plan.calibration + (pair.layer * plan.shape.heads + pair.head) * plan.shape.key_dim;
    for (uint32_t d = threadIdx.x % 32 * 4; d < plan.shape.key_dim; d += 128) {
      CopyAsync<16>(stage.channels[threadIdx.x / 32] + d, row + d);
    }
  }

  // Writes pair p, whose reads have arrived.
  __device__ void Write(uint32_t p, const Stages& stage, const ThreadRope& rope, int64_t cell) const {
    const BlockPair& pair = pairs[p];
    RowBits row;
    row.group[0] = StagedBits(stage.first[threadIdx.x]);
    row.group[1] = StagedBits(stage.second[threadIdx.x]);
    row.scale = __half{};
    if (!kKey && IsQuantised(encoding)) row.scale = Scale(pair, stage);
    const KeyQuant* channels = staged ? stage.channels[threadIdx.x / 32]
                                      : calibration + (pair.layer * plan.shape.heads + pair.head) * plan.shape.key_dim;
    StoreRow<kKey>(row, rope, pair, cell, channels, encoding,
                   kType == kAny ? pair.type : static_cast<CacheType>(kType));
  }

  template <class Group>
  __device__ static Bits StagedBits(const Group& group) {
    if constexpr (kBytes == 16) return *reinterpret_cast<const uint4*>(&group);
    if constexpr (kBytes == 8) {
      const uint2 two = *reinterpret_cast<const uint2*>(&group);
      return make_uint4(two.x, two.y, 0, 0);
    }
    return make_uint4(*reinterpret_cast<const uint32_t*>(&group), 0, 0, 0);
  }

  __device__ __half Scale(const BlockPair& pair, const Stages& stage) const {
    const uint8_t* at = rows.Scale(pair.head, pair.layer);
    if (kMixed) return *reinterpret_cast<const __half*>(at);
    const uint32_t word = stage.scale[threadIdx.x];
    return As<__half2>(word >> (reinterpret_cast<uintptr_t>(at) % 4 * 8)).x;
  }
};

// The K rows or the V rows of a thread. Threads without a token take part: their warp stages calibrations together.
template <bool kKey, int kEncoding, int kType>
__device__ void MoveRows(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, uint32_t count,
                         typename Injection<kKey, kEncoding, kType>::Stages* stages, bool checks) {
  constexpr int kStages = Injection<kKey, kEncoding, kType>::kCount;
  Injection<kKey, kEncoding, kType> injection(plan, place, pairs, stages);
#pragma unroll
  for (int i = 0; i < kStages; ++i) {
    if (i < static_cast<int>(count)) injection.Read(i, stages[i]);
    CommitCopies();
  }
  if (checks) CheckStamps(plan, place.source, kStampChangedBefore);
  ThreadRope rope(place);
  ThreadCell cell;
  for (uint32_t p = 0, stage = 0; p < count; ++p, stage = stage + 1 == kStages ? 0 : stage + 1) {
    AwaitCopies<kStages - 1>();
    if (injection.staged) __syncwarp();
    if (place.active) {
      cell.Use(plan, place, pairs[p].geometry);
      if (cell.offset != kNoCell) {
        if (kKey) rope.Use(plan, place, pairs[p].rope, /*inverse=*/false);
        injection.Write(p, stages[stage], rope, cell.offset);
      }
    }
    if (injection.staged) __syncwarp();
    if (p + kStages < count) injection.Read(p + kStages, stages[stage]);
    CommitCopies();
  }
}

template <int kEncoding, int kType>
__global__ void __launch_bounds__(kBlockThreads, kBlocksPerSm)
    InjectVectors(const __grid_constant__ KvPlanView plan, uint32_t pairs_per_block) {
  __shared__ BlockPair pairs[kMaxPairsPerBlock];
  __shared__ typename Injection<true, kEncoding, kType>::Stages stages[Injection<true, kEncoding, kType>::kCount];
  const BlockWork work(plan, pairs_per_block);
  FindPairs(plan, work, pairs);
  const ThreadPlace place = FindPlace(plan, work.tokens);
  const bool checks = place.active && place.key && place.lane == 0;
  __syncthreads();
  const uint32_t count = work.end - work.begin;
  if (place.key) {
    MoveRows<true, kEncoding, kType>(plan, place, pairs, count, stages, checks);
  } else {
    MoveRows<false, kEncoding, kType>(plan, place, pairs, count, stages, checks);
  }
  // All of the block's reads have arrived.
  __syncthreads();
  if (checks) CheckStamps(plan, place.source, kStampChangedAfter);
}

struct Launch {
  template <int kEncoding, int kType>
  static void Run(const KvPlanView& plan, cudaStream_t stream, uint32_t blocks, uint32_t pairs_per_block) {
    InjectVectors<kEncoding, kType><<<blocks, kBlockThreads, 0, stream>>>(plan, pairs_per_block);
  }
};

}  // namespace

int InjectCuda(const KvPlanView& plan, CUstream_st* stream, KvLaunchOptions options) {
  if (plan.token_count == 0 || plan.layer_count == 0) return cudaSuccess;
  return plan.vectors ? LaunchVectors<Launch>(plan, stream, options) : InjectRowsCuda(plan, stream);
}

int InjectCuda(const KvPlanView& plan, CUstream_st* stream) { return InjectCuda(plan, stream, {}); }

}  // namespace inferscale::kernels
