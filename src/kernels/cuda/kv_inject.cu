// Records -> paged cache. docs/cuda.md explains the design; kv_thread.cuh how threads are placed.
#include <cuda_runtime.h>

#include "kernels/cuda/kv_launch.cuh"
#include "kernels/cuda/kv_reader.cuh"
#include "kernels/cuda/kv_thread.cuh"
#include "kernels/cuda/kv_transfer.h"

namespace inferscale::kernels {
namespace {

// A thread's two groups of a row.
struct RowBits {
  Bits group[2];
  __half scale;  // of V, when quantised
};

// The channels of a thread's two groups: {scale, zero} of four in each 16 bytes.
struct RowChannels {
  uint4 words[2][2];
};

__device__ void Dequantise(Eight& x, const uint4 (&channels)[2]) {
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const uint32_t words[4] = {channels[i].x, channels[i].y, channels[i].z, channels[i].w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float2 channel = __half22float2(As<__half2>(words[j]));
      x.v[4 * i + j] = fmaf(x.v[4 * i + j], channel.x, channel.y);
    }
  }
}

// channels: only for keys that are quantised.
template <bool kKey>
__device__ Eight Decode(const Bits& bits, __half scale, const uint4 (&channels)[2], PayloadEncoding encoding) {
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

template <bool kKey, bool kOnce>
__device__ void StoreRow(const RowBits& row, const ThreadRope& rope, const BlockPair& pair, int64_t cell,
                         const RowChannels& channels, PayloadEncoding encoding, CacheType type) {
  const uint32_t bytes = 8 * BytesPerElement(type);
  uint8_t* to = pair.row[kKey] + cell;
  uint8_t* first = to + rope.groups.at[0] * bytes;
  uint8_t* second = to + rope.groups.at[1] * bytes;
  if (SameBits(encoding, type) && !(kKey && rope.groups.turns[0])) {
    StoreBits<kOnce>(first, bytes, row.group[0]);
    StoreBits<kOnce>(second, bytes, row.group[1]);
    return;
  }
  Eight a = Decode<kKey>(row.group[0], row.scale, channels.words[0], encoding);
  Eight b = Decode<kKey>(row.group[1], row.scale, channels.words[1], encoding);
  if constexpr (kKey) rope.Apply(a, b);
  if (type == CacheType::kFp8E4m3) {
    const float scale = 1.0f / pair.scale[kKey];
#pragma unroll
    for (int i = 0; i < 8; ++i) a.v[i] *= scale, b.v[i] *= scale;
  }
  StoreBits<kOnce>(first, bytes, ToCache(a, type));
  StoreBits<kOnce>(second, bytes, ToCache(b, type));
}

// The writing side: a thread's part of the K rows or of the V rows.
template <bool kKey, int kEncoding, int kType>
class Writer {
  using S = Stage<kEncoding>;

 public:
  __device__ Writer(const KvPlanView& plan, const ThreadPlace& place)
      : plan_(plan),
        place_(place),
        encoding_(S::kMixed ? place.encoding : static_cast<PayloadEncoding>(kEncoding)),
        staged_(S::StagesChannels(plan)) {
    row_at_ = place.slot * (kKey ? S::KeyRow(plan) : S::ValueRow(plan));
    if (!kKey) row_at_ += TokensPerBlock(plan.shape) * S::KeyRow(plan);
    if (kKey && IsQuantised(encoding_) && place.active) calibration_ = plan.sources[place.source].calibration;
  }

  __device__ void Write(const BlockPair& pair, const S& stage, const ThreadRope& rope, int64_t cell) const {
    const uint32_t bytes = S::kMixed ? BitsPerElement(encoding_) : S::kBits;  // of eight elements
    RowBits row;
    row.group[0] = LoadStaged(stage.rows + row_at_ + rope.groups.at[0] * bytes, bytes);
    row.group[1] = LoadStaged(stage.rows + row_at_ + rope.groups.at[1] * bytes, bytes);
    row.scale = __half{};
    if (!kKey && IsQuantised(encoding_)) row.scale = Scale(pair, stage);
    RowChannels channels;
    if (kKey && IsQuantised(encoding_)) LoadChannels(pair, stage, rope.groups, channels);
    StoreRow<kKey, S::kOnce>(row, rope, pair, cell, channels, encoding_,
                             kType == kAny ? pair.type : static_cast<CacheType>(kType));
  }

 private:
  __device__ static Bits LoadStaged(const uint8_t* at, uint32_t bytes) {
    if (bytes == 16) return *reinterpret_cast<const uint4*>(at);
    if (bytes == 8) {
      const uint2 two = *reinterpret_cast<const uint2*>(at);
      return make_uint4(two.x, two.y, 0, 0);
    }
    return make_uint4(*reinterpret_cast<const uint32_t*>(at), 0, 0, 0);
  }

  __device__ void LoadChannels(const BlockPair& pair, const S& stage, const ThreadGroups& groups,
                               RowChannels& channels) const {
    const KeyQuant* row = calibration_ + (pair.layer * plan_.shape.heads + pair.head) * plan_.shape.key_dim;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const uint32_t d = 8 * groups.at[i / 2] + i % 2 * 4;
      channels.words[i / 2][i % 2] = staged_ ? *reinterpret_cast<const uint4*>(stage.channels + d)
                                             : __ldg(reinterpret_cast<const uint4*>(row + d));
    }
  }

  __device__ __half Scale(const BlockPair& pair, const S& stage) const {
    const uint32_t odd = (pair.layer * place_.record_tokens + place_.token) & 1;  // half of its word
    return As<__half2>(stage.scale[place_.slot] >> (odd * 16)).x;
  }

  const KvPlanView& plan_;
  const ThreadPlace& place_;
  const PayloadEncoding encoding_;
  const bool staged_;    // the calibration
  uint32_t row_at_ = 0;  // in a stage
  const KeyQuant* calibration_ = nullptr;
};

template <bool kKey, int kEncoding, int kType>
__device__ void WriteAll(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, uint32_t count,
                         Stages<kEncoding>* stages) {
  const Writer<kKey, kEncoding, kType> writer(plan, place);
  ThreadRope rope(place);
  ThreadCell cell;
  StageTurn<Stage<kEncoding>::kCount> turn;
#pragma unroll 1
  for (uint32_t p = 0; p < count; ++p, turn.Next()) {
    if (place.active) {
      cell.Use(plan, place, pairs[p].geometry);
      if (kKey) rope.Use(plan, place, pairs[p].rope, /*inverse=*/false);
    }
    Await(stages->full + turn.index, turn.parity);
    if (cell.offset != kNoCell) writer.Write(pairs[p], stages->stage[turn.index], rope, cell.offset);
    __syncwarp();
    if (threadIdx.x % 32 == 0) Arrive(stages->empty + turn.index);
  }
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
    Reader<kEncoding> reader(plan, place, pairs, &stages);
    reader.ReadAll(count);
    __syncthreads();  // behind it, all reads of the block have arrived
    reader.CheckAfter();
    return;
  }
  if (place.key) {
    WriteAll<true, kEncoding, kType>(plan, place, pairs, count, &stages);
  } else {
    WriteAll<false, kEncoding, kType>(plan, place, pairs, count, &stages);
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
