// The writing side of the inject kernel: from a stage (kv_reader.cuh), turned, into the cache.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_async.cuh"
#include "kernels/cuda/kv_reader.cuh"
#include "kernels/cuda/kv_thread.cuh"

namespace inferscale::kernels {

// A thread's two groups of a row.
struct RowBits {
  Bits group[2];
  __half scale;  // of V, when quantised
};

// The channels of a thread's two groups: {scale, zero} of four in each 16 bytes.
struct RowChannels {
  uint4 words[2][2];
};

__device__ inline void Dequantise(Eight& x, const uint4 (&channels)[2]) {
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

// Two writing sides: a thread's part of the K rows or of the V rows. All threads of a warp call Write for each pair in
// turn, and End. kLag, 0 or 1: so many of the last stages are still read.
//
// This one reads a stage into registers and writes from there.
template <bool kKey, int kEncoding, int kType>
class Writer {
  using S = Stage<kEncoding>;

 public:
  static constexpr uint32_t kLag = 0;

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
    if (cell == kNoCell) return;
    const uint32_t bytes = S::kMixed ? BitsPerElement(encoding_) : S::kBits;  // of eight elements
    RowBits row;
    row.group[0] = LoadStaged(stage.rows + row_at_ + rope.groups.at[0] * bytes, bytes);
    row.group[1] = LoadStaged(stage.rows + row_at_ + rope.groups.at[1] * bytes, bytes);
    row.scale = __half{};
    if (!kKey && IsQuantised(encoding_)) row.scale = Scale(pair, stage);
    RowChannels channels;
    if (kKey && IsQuantised(encoding_)) LoadChannels(pair, stage, rope.groups, channels);
    StoreRow<kKey, S::kHasChannels>(row, rope, pair, cell, channels, encoding_,
                                    kType == kAny ? pair.type : static_cast<CacheType>(kType));
  }
  __device__ void End() const {}

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

// This one turns rows in the stage that they were read into, which they leave with one instruction a row: less than
// half of a warp's instructions, and stores of whole rows. For 16 bits an element on both sides, where rows need no
// other place. (Quantised rows that were made in another part of shared memory took 5 to 15 % longer than with Writer.)
template <bool kKey, int kEncoding, int kType>
class InPlaceWriter {
  using S = Stage<kEncoding>;

 public:
  static constexpr uint32_t kLag = 1;

  __device__ InPlaceWriter(const KvPlanView& plan, const ThreadPlace& place, bool once)
      : leads_(place.active && place.lane == 0),
        in_warp_(32 % place.lanes == 0),
        role_threads_(KeyThreads(plan.shape, TokensPerBlock(plan.shape))),
        row_bytes_(kKey ? S::KeyRow(plan) : S::ValueRow(plan)),
        row_at_(place.slot * row_bytes_ + (kKey ? 0 : TokensPerBlock(plan.shape) * S::KeyRow(plan))),
        policy_(CachePolicy(once)) {
    if (!kKey) role_threads_ = kBlockThreads - role_threads_;
  }

  __device__ void Write(const BlockPair& pair, S& stage, const ThreadRope& rope, int64_t cell) const {
    uint8_t* const row = stage.rows + row_at_;
    if (cell != kNoCell && (!SameBits(kFrom, kTo) || (kKey && rope.groups.turns[0]))) {
      Bits* const first = reinterpret_cast<Bits*>(row) + rope.groups.at[0];
      Bits* const second = reinterpret_cast<Bits*>(row) + rope.groups.at[1];
      Eight a = FromSixteen(*first), b = FromSixteen(*second);
      if constexpr (kKey) rope.Apply(a, b);
      *first = ToCache(a, kTo);
      *second = ToCache(b, kTo);
    }
    FenceBulk();
    MeetRow();
    if (!leads_) return;
    if (cell != kNoCell) StoreBulk(pair.row[kKey] + cell, row, row_bytes_, policy_);
    CommitBulk();
    AwaitBulk<kLag>();
  }

  // Shared memory must stay until all of it has left.
  __device__ void End() const {
    if (leads_) AwaitBulk<0>();
  }

 private:
  static constexpr auto kFrom = static_cast<PayloadEncoding>(kEncoding);
  static constexpr auto kTo = static_cast<CacheType>(kType);

  __device__ static Eight FromSixteen(const Bits& bits) {
    return kFrom == PayloadEncoding::kBf16 ? FromBf16(bits) : FromF16(bits);
  }

  // The threads of a row.
  __device__ void MeetRow() const {
    if (in_warp_) {
      __syncwarp();
    } else {
      Meet(kKey ? 1 : 2, role_threads_);
    }
  }

  const bool leads_;       // the row's first thread
  const bool in_warp_;     // no row is in two warps
  uint32_t role_threads_;  // of all K rows, or of all V rows
  const uint32_t row_bytes_;
  const uint32_t row_at_;  // in a stage
  const uint64_t policy_;
};

// Which of them a launch has.
constexpr bool HasSixteenBits(int encoding, int type) {
  return (encoding == int(PayloadEncoding::kF16) || encoding == int(PayloadEncoding::kBf16)) &&
         (type == int(CacheType::kF16) || type == int(CacheType::kBf16));
}
template <int kEncoding, int kType>
inline constexpr bool kInPlace = kStoresBulk&& HasSixteenBits(kEncoding, kType);

template <bool kKey, int kEncoding, int kType>
__device__ auto MakeWriter(const KvPlanView& plan, const ThreadPlace& place, bool once) {
  if constexpr (kInPlace<kEncoding, kType>) {
    return InPlaceWriter<kKey, kEncoding, kType>(plan, place, once);
  } else {
    return Writer<kKey, kEncoding, kType>(plan, place);
  }
}

}  // namespace inferscale::kernels
