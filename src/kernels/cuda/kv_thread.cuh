// A thread's place in the work of the vector kernels.
//
// A block of 256 threads has `tokens` tokens of the plan and a chunk of the pairs (layer, head), which it goes through
// one after the other. A row of D elements has D / 16 threads, each with two groups of eight; the threads of all K rows
// come first, then those of all V rows, so that a warp does one or the other: with D = 128, 16 tokens, warps 0 to 3 K.
#pragma once

#include <cstdint>

#include "kernels/cuda/kv_vector.cuh"
#include "kernels/kv_plan.h"

namespace inferscale::kernels {

inline constexpr int kBlockThreads = 256;
inline constexpr int kBlocksPerSm = 3;
inline constexpr uint32_t kMaxTokensPerBlock = 32;

struct ThreadPlace {
  bool active = false;  // false: beyond the last token, or left over
  bool key = false;
  uint32_t lane = 0;   // of the row
  uint32_t lanes = 0;  // of the row
  uint32_t slot = 0;   // of the block's tokens
  uint32_t token = 0;  // of the record
  uint32_t position = 0;
  uint32_t request = 0;
  uint32_t source = 0;
  uint32_t record_tokens = 0;
  PayloadEncoding encoding = PayloadEncoding::kBf16;
  uint8_t* payload = nullptr;
};

// Threads for the K rows of so many tokens, in whole warps.
__host__ __device__ inline uint32_t KeyThreads(const PayloadShape& shape, uint32_t tokens) {
  return (tokens * (shape.key_dim / 16) + 31) / 32 * 32;
}

__host__ __device__ inline uint32_t TokensPerBlock(const PayloadShape& shape) {
  uint32_t tokens = kBlockThreads / ((shape.key_dim + shape.value_dim) / 16);
  if (tokens > kMaxTokensPerBlock) tokens = kMaxTokensPerBlock;
  while (KeyThreads(shape, tokens) + tokens * (shape.value_dim / 16) > kBlockThreads) --tokens;
  return tokens;
}

// How the pairs of a launch are cut into thread blocks, which are started in this order: `first_count` chunks of
// `first` pairs, the rest in chunks of `last` pairs: small, so that all multiprocessors end at the same time.
struct PairChunks {
  uint32_t first = 0;
  uint32_t first_count = 0;
  uint32_t last = 0;

  __host__ __device__ uint32_t Count(uint32_t pairs) const {
    return first_count + (pairs - first_count * first + last - 1) / last;
  }
  __host__ __device__ bool OneWave() const { return first == last; }
};

// What a thread block does: tokens [block * TokensPerBlock, …) and pairs [begin, end). Pair p is layer p / heads, head
// p % heads: the heads of a layer follow each other, so a token's row of all heads is written within a short time.
struct BlockWork {
  uint32_t tokens = 0;
  uint32_t begin = 0;
  uint32_t end = 0;

  __device__ BlockWork(const KvPlanView& plan, const PairChunks& chunks) {
    const uint32_t per_block = TokensPerBlock(plan.shape);
    const uint32_t token_blocks = (plan.token_count + per_block - 1) / per_block;
    const uint32_t chunk = blockIdx.x / token_blocks;
    tokens = blockIdx.x - chunk * token_blocks;
    const bool late = chunk >= chunks.first_count;
    begin =
        late ? chunks.first_count * chunks.first + (chunk - chunks.first_count) * chunks.last : chunk * chunks.first;
    end = min(begin + (late ? chunks.last : chunks.first), plan.layer_count * plan.shape.heads);
  }
};

inline constexpr uint32_t kMaxPairsPerBlock = 64;

// What all threads of a block need of a pair, in shared memory: the layers' descriptors are read and the divisions made
// once per block instead of once per thread and pair (which took three times as long as the memory did).
struct BlockPair {
  uint8_t* row[2];  // V, K: of this head, from where a token's cell counts
  float scale[2];   // V, K
  uint32_t head;
  uint32_t layer;  // of the record
  uint32_t rope;
  uint32_t geometry;  // also the index of a layer that has it
  CacheType type;
};

// All threads of the block call this; the pairs are ready behind the next __syncthreads().
__device__ inline void FindPairs(const KvPlanView& plan, const BlockWork& work, BlockPair* pairs) {
  const uint32_t p = work.begin + threadIdx.x;
  if (p >= work.end) return;
  const uint32_t l = p / plan.shape.heads, head = p - l * plan.shape.heads;
  const CacheLayer& layer = plan.layers[l];
  uint8_t* row = layer.base + head * layer.head_stride;
  pairs[threadIdx.x] = {.row = {row + layer.value_offset, row + layer.key_offset},
                        .scale = {layer.value_scale, layer.key_scale},
                        .head = head,
                        .layer = layer.record_layer,
                        .rope = layer.rope,
                        .geometry = layer.geometry,
                        .type = layer.type};
}

// The span that a token of the plan is in: one read, if the tile's second span does not end before it.
__device__ inline KvPlanSpan FindSpan(const KvPlanView& plan, uint32_t token) {
  const KvPlanTile& tile = plan.tiles[token / kPlanTile];
  const KvPlanSpan first = tile.spans[0], second = tile.spans[1];
  if (token < second.first) return first;
  uint32_t s = tile.second;
  if (s + 1 >= plan.span_count || token < second.end) return second;
  while (s + 1 < plan.span_count && plan.spans[s + 1].first <= token) ++s;
  return plan.spans[s];
}

__device__ inline void PlaceToken(const KvPlanView& plan, uint32_t block_of_tokens, ThreadPlace& place) {
  const uint32_t tokens = TokensPerBlock(plan.shape), token = block_of_tokens * tokens + place.slot;
  place.active = place.slot < tokens && token < plan.token_count;
  if (!place.active) return;
  const KvPlanSpan span = FindSpan(plan, token);
  place.token = span.source_first + (token - span.first);
  place.position = span.position + (token - span.first);
  place.request = span.request;
  place.source = span.source;
  place.record_tokens = span.record_tokens;
  place.encoding = span.encoding;
  place.payload = span.payload;
}

// Of the first kBlockThreads threads.
__device__ inline ThreadPlace FindPlace(const KvPlanView& plan, uint32_t block_of_tokens) {
  ThreadPlace place;
  const uint32_t key_threads = KeyThreads(plan.shape, TokensPerBlock(plan.shape));
  place.key = threadIdx.x < key_threads;
  place.lanes = (place.key ? plan.shape.key_dim : plan.shape.value_dim) / 16;
  const uint32_t index = place.key ? threadIdx.x : threadIdx.x - key_threads;
  place.slot = index / place.lanes;
  place.lane = index - place.slot * place.lanes;
  PlaceToken(plan, block_of_tokens, place);
  return place;
}

// Where a thread's row lies in its record, for every (head, layer). Offsets fit 32 bits: limits::kRecordBytes.
struct RecordRows {
  uint8_t* row = nullptr;    // of head 0 and layer 0
  uint8_t* scale = nullptr;  // of V, when quantised
  uint32_t head_bytes = 0;
  uint32_t layer_bytes = 0;
  uint32_t scale_layer_bytes = 0;
  uint32_t group_bytes = 0;  // of eight elements

  __device__ RecordRows(const KvPlanView& plan, const ThreadPlace& place, PayloadEncoding encoding) {
    const PayloadLayout at{plan.shape, place.record_tokens, encoding};
    row = place.payload + (place.key ? at.Key(0, 0, place.token) : at.Value(0, 0, place.token));
    scale = place.payload + at.ValueScale(0, 0, place.token);
    head_bytes = static_cast<uint32_t>(at.HeadBytes());
    layer_bytes = static_cast<uint32_t>(at.LayerBytes());
    scale_layer_bytes = place.record_tokens * 2;
    group_bytes = BitsPerElement(encoding);  // eight elements
  }
  __device__ uint8_t* Row(uint32_t head, uint32_t layer) const {
    return row + (head * head_bytes + layer * layer_bytes);
  }
  __device__ uint8_t* Scale(uint32_t head, uint32_t layer) const {
    return scale + (head * head_bytes + layer * scale_layer_bytes);
  }
};

// Which two groups of its row a thread has in a layer.
struct ThreadGroups {
  uint32_t at[2] = {0, 0};
  bool turns[2] = {false, false};  // the second only with the first
  bool halves = false;             // NeoX: element i of group 0 pairs with element i of group 1; else neighbours pair

  // Rows that do not rotate: the groups i and i + D / 16, so that a row's threads read and write its bytes in order.
  __device__ explicit ThreadGroups(const ThreadPlace& place) : at{place.lane, place.lane + place.lanes} {}

  __device__ ThreadGroups(const ThreadPlace& place, const RopeRows& rows) : ThreadGroups(place) {
    halves = rows.pairing == Pairing::kNeoxHalves;
    if (!halves) {
      turns[0] = 8 * at[0] < rows.rotary_dims, turns[1] = 8 * at[1] < rows.rotary_dims;
      return;
    }
    const uint32_t turning = rows.rotary_dims / 16;  // threads whose two groups are one rotation
    turns[0] = turns[1] = place.lane < turning;
    if (turning == place.lanes) return;
    // Partial: the other threads copy what is left, two groups each.
    at[0] = place.lane < turning ? place.lane : 2 * place.lane;
    at[1] = place.lane < turning ? place.lane + turning : at[0] + 1;
  }
};

// How a thread's K rows rotate: cosines and sines in registers, loaded when the table changes from layer to layer.
struct ThreadRope {
  uint32_t rope = kNoRope;
  ThreadGroups groups;
  // NeoX: of the eight pairs. Interleaved: of the four pairs of group 0, then of group 1.
  float c[8];
  float s[8];

  __device__ explicit ThreadRope(const ThreadPlace& place) : groups(place) {}

  __device__ void Use(const KvPlanView& plan, const ThreadPlace& place, uint32_t next, bool inverse) {
    if (next == rope) return;
    rope = next;
    groups = rope == kNoRope ? ThreadGroups(place) : ThreadGroups(place, plan.ropes[rope]);
    if (!groups.turns[0]) return;
    const RopeRows& rows = plan.ropes[rope];
    if (groups.halves) {
      LoadTable(rows, place.position, 8 * place.lane, 8 * place.lane + 4);
    } else {
      LoadTable(rows, place.position, 4 * groups.at[0], 4 * (groups.turns[1] ? groups.at[1] : groups.at[0]));
    }
    if (inverse) Invert();
  }

  // Four entries of cosines and of sines each from pairs `first` and `second`.
  __device__ void LoadTable(const RopeRows& rows, uint32_t position, uint32_t first, uint32_t second) {
    const uint8_t* row = static_cast<const uint8_t*>(rows.rows) + position * rows.row_stride;
    const uint32_t half = rows.rotary_dims / 2;
    const float4 c0 = LoadFour(row, rows.type, first), c1 = LoadFour(row, rows.type, second);
    const float4 s0 = LoadFour(row, rows.type, half + first), s1 = LoadFour(row, rows.type, half + second);
    c[0] = c0.x, c[1] = c0.y, c[2] = c0.z, c[3] = c0.w, c[4] = c1.x, c[5] = c1.y, c[6] = c1.z, c[7] = c1.w;
    s[0] = s0.x, s[1] = s0.y, s[2] = s0.z, s[3] = s0.w, s[4] = s1.x, s[5] = s1.y, s[6] = s1.z, s[7] = s1.w;
  }
  __device__ static float4 LoadFour(const uint8_t* row, TableType type, uint32_t index) {
    if (type == TableType::kF32) return __ldg(reinterpret_cast<const float4*>(row) + index / 4);
    const uint2 four = __ldg(reinterpret_cast<const uint2*>(row) + index / 4);
    const float2 a = __bfloat1622float2(As<__nv_bfloat162>(four.x));
    const float2 b = __bfloat1622float2(As<__nv_bfloat162>(four.y));
    return make_float4(a.x, a.y, b.x, b.y);
  }
  __device__ void Invert() {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float length = c[i] * c[i] + s[i] * s[i];
      c[i] = c[i] / length, s[i] = -s[i] / length;
    }
  }

  __device__ static void Turn(float& x0, float& x1, float c, float s) {
    const float y0 = x0 * c - x1 * s;
    x1 = x0 * s + x1 * c;
    x0 = y0;
  }
  __device__ void Apply(Eight& a, Eight& b) const {
    if (groups.halves) {
      if (!groups.turns[0]) return;
#pragma unroll
      for (int i = 0; i < 8; ++i) Turn(a.v[i], b.v[i], c[i], s[i]);
      return;
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (groups.turns[0]) Turn(a.v[2 * i], a.v[2 * i + 1], c[i], s[i]);
      if (groups.turns[1]) Turn(b.v[2 * i], b.v[2 * i + 1], c[i + 4], s[i + 4]);
    }
  }
};

// The cell of a thread's token, looked up when the geometry changes from layer to layer.
struct ThreadCell {
  uint32_t geometry = 0xFFFFFFFF;
  int64_t offset = kNoCell;

  __device__ void Use(const KvPlanView& plan, const ThreadPlace& place, uint32_t next) {
    if (next == geometry) return;
    geometry = next;
    offset = CacheCell(plan, plan.layers[geometry], place.request, place.position);
  }
};

}  // namespace inferscale::kernels
