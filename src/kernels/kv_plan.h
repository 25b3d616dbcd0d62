// What one launch moves: any number of requests, each with spans of stored records at positions of its block tables.
// KvBatch is what a caller says; KvPlanBuilder (kv_plan_builder.h) checks it and lays it out in one relocatable buffer;
// KvPlanView points into that buffer, on the host or on the device, and is all that the kernels see.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/kv_payload.h"
#include "kernels/paged_cache.h"

namespace inferscale::kernels {

// A record's bytes where the kernel can reach them: arena, or host memory that is mapped for the device. They stay in
// place until the launch has ended.
struct KvSource {
  uint8_t* payload = nullptr;  // 16-byte aligned; written by extraction only
  uint64_t payload_bytes = 0;
  const RecordStamp* stamp = nullptr;   // checked before and after; null: memory that nobody else can reuse
  const RecordStamp* origin = nullptr;  // the stamp of the host memory that the arena's bytes came from; null: none
  RecordStamp expected;
  const KeyQuant* calibration = nullptr;  // int8 and int4
  uint32_t tokens = 0;
  PayloadEncoding encoding = PayloadEncoding::kBf16;
};

// Tokens [source_first, source_first + tokens) of a record, at positions [position, position + tokens) of its request.
// Positions select both the cache slot and the row of the rope table.
struct KvSpan {
  uint32_t source = 0;
  uint32_t source_first = 0;
  uint32_t tokens = 0;
  uint32_t position = 0;
};

struct KvRequest {
  std::span<const KvSpan> spans;  // their positions do not overlap
  // [groups] block tables; entry e serves positions [e * n, e * n + n) with n = block_size * blocks_per_entry. An entry
  // that is null_block, or negative, stands for a block that the request does not have: never read, never written.
  std::span<const std::span<const int32_t>> tables;
};

struct KvBatch {
  PayloadShape shape;
  std::span<const KvSource> sources;
  std::span<const KvRequest> requests;
  std::span<const CacheLayer> layers;  // those present on this rank
  std::span<const RopeRows> ropes;
  uint32_t groups = 1;
  int32_t null_block = -1;  // vLLM: 0
};

// Bits of a source's status word after injection: the stamp was not the expected one. Such a load has failed. After an
// extraction the word is the number of K values that had to be clipped to the calibration's range.
inline constexpr uint32_t kStampChangedBefore = 1;
inline constexpr uint32_t kStampChangedAfter = 2;

// A span with its request resolved. `first` counts tokens over all spans of the plan: the kernels' work is the tokens
// [0, token_count) times the pairs of layer and head.
struct KvPlanSpan {
  uint8_t* payload = nullptr;
  uint32_t record_tokens = 0;
  uint32_t source_first = 0;
  uint32_t position = 0;
  uint32_t first = 0;
  uint32_t end = 0;  // first + the span's tokens
  uint32_t request = 0;
  uint32_t source = 0;
  PayloadEncoding encoding = PayloadEncoding::kBf16;
};

// The spans of token i * kPlanTile and the one behind it, copied: a thread finds its record with one read where facts
// have 15 tokens or more, and walks on from `second` where they are shorter. (Reads of a cold plan take 0.8 µs each,
// and a launch of 300 tokens 20.)
inline constexpr uint32_t kPlanTile = 16;
struct KvPlanTile {
  KvPlanSpan spans[2];  // the second is the first again when that is the last
  uint32_t second = 0;  // its index
};

struct KvPlanView {
  const KvSource* sources = nullptr;      // [source_count]
  const KvPlanSpan* spans = nullptr;      // [span_count]
  const KvPlanTile* tiles = nullptr;      // [ceil(token_count / kPlanTile)]
  const CacheLayer* layers = nullptr;     // [layer_count]
  const RopeRows* ropes = nullptr;        // [rope_count]
  const uint32_t* table_first = nullptr;  // [requests * groups] index into blocks
  const int32_t* blocks = nullptr;
  uint32_t* status = nullptr;  // [source_count]
  PayloadShape shape;
  uint32_t source_count = 0;
  uint32_t span_count = 0;
  uint32_t token_count = 0;
  uint32_t layer_count = 0;
  uint32_t groups = 1;
  int32_t null_block = -1;
  // What the launcher chooses its kernel by.
  bool vectors = false;                   // every row can be moved 8 elements at a time
  bool one_encoding = false;              // all sources have `encoding`
  bool one_type = false;                  // all layers have `type`
  bool quantised = false;                 // some source is
  bool has_nulls = false;                 // some entry of a block table is a null block
  const KeyQuant* calibration = nullptr;  // of all quantised sources; null when there is none or several
  PayloadEncoding encoding = PayloadEncoding::kBf16;
  CacheType type = CacheType::kBf16;

  INFERSCALE_HD PayloadLayout Layout(const KvPlanSpan& span) const {
    return {shape, span.record_tokens, span.encoding};
  }
};

inline constexpr int64_t kNoCell = -1;

// From a layer's base to a token's row of head 0, without key_offset or value_offset; kNoCell when the request has no
// block there. Bytes, never negative.
INFERSCALE_HD inline int64_t CacheCell(const KvPlanView& plan, const CacheLayer& layer, uint32_t request,
                                       uint32_t position) {
  const uint32_t block_in_table = position / layer.block_size;
  const uint32_t token = position - block_in_table * layer.block_size;
  const uint32_t entry = block_in_table / layer.blocks_per_entry;
  const int32_t named = plan.blocks[plan.table_first[request * plan.groups + layer.group] + entry];
  if (named < 0 || named == plan.null_block) return kNoCell;
  const uint32_t in_entry = block_in_table - entry * layer.blocks_per_entry;
  const int64_t block = static_cast<int64_t>(named) * layer.blocks_per_entry + in_entry;
  return block * layer.block_stride + token * layer.token_stride;
}

}  // namespace inferscale::kernels
