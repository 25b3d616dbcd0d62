// The reading side of the inject kernel: one warp of a block copies the rows of the block's tokens into shared memory,
// some pairs (layer, head) ahead of the threads that turn and write them. A record's rows of consecutive tokens are one
// piece, so that a copy is 4 KB for 16 tokens of 128 bf16 elements: few instructions, and no registers for bytes under
// way.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_async.cuh"
#include "kernels/cuda/kv_stamp.cuh"
#include "kernels/cuda/kv_thread.cuh"

namespace inferscale::kernels {

inline constexpr int kReaderThreads = 32;
static_assert(kReaderThreads >= kMaxTokensPerBlock, "a reader lane has one token");

// Calibrations of keys up to this size are staged with the rows.
inline constexpr uint32_t kStagedDim = 256;

// The rows of one pair. kEncoding: a PayloadEncoding, or kAny: room for 16 bits an element.
template <int kEncoding>
struct Stage {
  static constexpr bool kMixed = kEncoding == kAny;
  static constexpr uint32_t kBits = kMixed ? 16 : BitsPerElement(static_cast<PayloadEncoding>(kEncoding));
  static constexpr bool kHasScales = kMixed || IsQuantised(static_cast<PayloadEncoding>(kEncoding));
  static constexpr bool kHasChannels = kHasScales && !kMixed;
  // Whether what is read and written gives up its lines of L2 first, since a launch touches every byte once. Measured:
  // quantised records gain 1 to 4 %. Unquantised ones gain 1 to 2 % in launches of one wave and lose as much in longer
  // ones.
  __device__ static bool Once(const PairChunks& chunks) { return kHasChannels || chunks.OneWave(); }
  // What one block has under way: 4.2 TB/s times 0.8 µs from a copy to its data are 3.4 MB, half of them reads: 13 KB
  // for each of 132 multiprocessors, which have three blocks.
  static constexpr uint32_t kCount = kHasChannels ? 8 : 5;

  alignas(16) uint8_t rows[kBlockThreads * 2 * kBits];  // 16 elements a thread: K rows by token, then V rows
  alignas(16) KeyQuant channels[kHasChannels ? kStagedDim : 4];
  uint32_t scale[kHasScales ? kMaxTokensPerBlock : 1];  // of V: the aligned word that has it

  __device__ static uint32_t KeyRow(const KvPlanView& plan) { return plan.shape.key_dim * kBits / 8; }
  __device__ static uint32_t ValueRow(const KvPlanView& plan) { return plan.shape.value_dim * kBits / 8; }
  // Whether channels are those of the pair; otherwise they are read from the record's own calibration.
  __device__ static bool StagesChannels(const KvPlanView& plan) {
    return kHasChannels && plan.calibration != nullptr && plan.shape.key_dim <= kStagedDim;
  }
};

template <int kEncoding>
struct Stages {
  Stage<kEncoding> stage[Stage<kEncoding>::kCount];
  Barrier full[Stage<kEncoding>::kCount];   // the reader's lanes arrive, and the bytes
  Barrier empty[Stage<kEncoding>::kCount];  // the writing warps arrive

  __device__ void Init() {
    for (uint32_t s = 0; s < Stage<kEncoding>::kCount; ++s) {
      InitBarrier(full + s, kReaderThreads);
      InitBarrier(empty + s, kBlockThreads / 32);
    }
  }
};

// Which stage a pair is in, and the parity of its barriers' phase.
template <uint32_t kCount>
struct StageTurn {
  uint32_t index = 0, parity = 0;
  __device__ void Next() {
    if (++index == kCount) index = 0, parity ^= 1;
  }
};

// One lane of the reading warp: all lanes call everything.
template <int kEncoding>
class Reader {
  using S = Stage<kEncoding>;

 public:
  __device__ Reader(const KvPlanView& plan, const ThreadPlace& place, const BlockPair* pairs, Stages<kEncoding>* stages,
                    bool once)
      : plan_(plan),
        place_(place),
        pairs_(pairs),
        stages_(stages),
        policy_(CachePolicy(once)),
        encoding_(S::kMixed ? place.encoding : static_cast<PayloadEncoding>(kEncoding)),
        rows_(plan, place, encoding_) {
    const PayloadLayout at{plan.shape, place.record_tokens, encoding_};
    value_at_ = static_cast<uint32_t>(at.Value(0, 0, place.token) - at.Key(0, 0, place.token));
    FindRuns(place.active);
  }

  __device__ void ReadAll(uint32_t count) {
    StageTurn<S::kCount> turn;
    for (uint32_t p = 0; p < count; ++p, turn.Next()) {
      // Waits until the pair that was here has been written; the first round's stages are empty: their barriers have no
      // phase of parity 1 to wait for.
      if (p == S::kCount) CheckStampsOnce();
      if (p >= S::kCount) Await(stages_->empty + turn.index, turn.parity ^ 1);
      Read(pairs_[p], stages_->stage[turn.index], stages_->full + turn.index);
    }
    CheckStampsOnce();
  }

  // When all reads have arrived.
  __device__ void CheckAfter() const {
    if (first_of_source_) CheckStamps(plan_, place_.source, kStampChangedAfter);
  }

 private:
  // Before and after would be the right order for "before" too; but what proves that the bytes are the record's is the
  // stamp after (kv_payload.h), and the first reads need not wait for this one.
  __device__ void CheckStampsOnce() {
    if (first_of_source_ && !checked_) CheckStamps(plan_, place_.source, kStampChangedBefore);
    checked_ = true;
  }

  // Cuts the block's tokens that have a cell into runs that are one piece in a record.
  __device__ void FindRuns(bool live) {
    live_ = live;
    const auto lane = threadIdx.x % 32;
    const auto last_payload = __shfl_up_sync(kAllLanes, reinterpret_cast<uintptr_t>(place_.payload), 1);
    const uint32_t last_token = __shfl_up_sync(kAllLanes, place_.token, 1);
    const bool same = lane > 0 && last_payload == reinterpret_cast<uintptr_t>(place_.payload);
    first_of_source_ = place_.active && !same;
    const uint32_t alive = __ballot_sync(kAllLanes, live);
    const bool goes_on = same && last_token + 1 == place_.token && (alive >> (lane - 1) & 1) && kMerges;
    const uint32_t starts = __ballot_sync(kAllLanes, live && !goes_on);
    const uint32_t stops = (starts | ~alive) & ~((2u << lane) - 1);  // behind this lane
    const uint32_t end = stops == 0 ? 32 : __ffs(stops) - 1;
    run_ = (starts >> lane & 1) ? end - lane : 0;
  }

  __device__ void Read(const BlockPair& pair, S& stage, Barrier* full) {
    if (plan_.has_nulls && pair.geometry != cell_.geometry) {
      if (place_.active) cell_.Use(plan_, place_, pair.geometry);
      cell_.geometry = pair.geometry;
      FindRuns(place_.active && cell_.offset != kNoCell);
    }
    if (run_ > 0) {
      const uint32_t bits = BitsPerElement(encoding_);
      const uint8_t* key = rows_.Row(pair.head, pair.layer);
      uint8_t* to = stage.rows + place_.slot * S::KeyRow(plan_);
      CopyBulk(to, key, run_ * (plan_.shape.key_dim * bits / 8), full, policy_);
      to = stage.rows + TokensPerBlock(plan_.shape) * S::KeyRow(plan_) + place_.slot * S::ValueRow(plan_);
      CopyBulk(to, key + value_at_, run_ * (plan_.shape.value_dim * bits / 8), full, policy_);
    }
    if (S::kHasChannels && threadIdx.x % 32 == 0 && S::StagesChannels(plan_)) {
      const KeyQuant* row = plan_.calibration + (pair.layer * plan_.shape.heads + pair.head) * plan_.shape.key_dim;
      CopyBulk(stage.channels, row, plan_.shape.key_dim * sizeof(KeyQuant), full, CachePolicy(false));
    }
    if (S::kHasScales && live_ && IsQuantised(encoding_)) {
      const auto at = reinterpret_cast<uintptr_t>(rows_.Scale(pair.head, pair.layer));
      CopyAsync<4>(stage.scale + place_.slot, reinterpret_cast<const void*>(at & ~uintptr_t{3}));
    }
    ArriveWhenCopied(full);
  }

  static constexpr uint32_t kAllLanes = 0xFFFFFFFF;
  // Mixed: rows of different size, each at its token's place. sm_80: 16 bytes at a time, by as many lanes as there are.
#if __CUDA_ARCH__ >= 900
  static constexpr bool kMerges = !S::kMixed;
#else
  static constexpr bool kMerges = false;
#endif

  const KvPlanView& plan_;
  const ThreadPlace& place_;
  const BlockPair* const pairs_;
  Stages<kEncoding>* const stages_;
  const uint64_t policy_;
  const PayloadEncoding encoding_;
  const RecordRows rows_;
  uint32_t value_at_ = 0;  // from a token's K row to its V row
  ThreadCell cell_;
  uint32_t run_ = 0;  // tokens of the run that begins with this lane's; 0: none does
  bool live_ = false;
  bool first_of_source_ = false;
  bool checked_ = false;
};

}  // namespace inferscale::kernels
