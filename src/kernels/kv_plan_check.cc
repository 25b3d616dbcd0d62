#include "kernels/kv_plan_check.h"

#include <cmath>
#include <string>

#include "base/limits.h"

namespace inferscale::kernels {
namespace {

tl::unexpected<Error> Bad(std::string what) { return Fail(ErrorCode::kInvalidArgument, std::move(what)); }

bool AlignedTo(const void* pointer, uintptr_t bytes) { return reinterpret_cast<uintptr_t>(pointer) % bytes == 0; }

std::string Named(const char* what, size_t index) { return std::string(what) + " " + std::to_string(index) + ": "; }

Status CheckSizes(const KvBatch& batch) {
  const PayloadShape& s = batch.shape;
  if (s.heads == 0 || s.layers == 0 || s.key_dim == 0 || s.value_dim == 0) return Bad("a shape without elements");
  if (s.heads > limits::kModelKvHeads || s.layers > limits::kModelLayers || s.key_dim > limits::kHeadDim ||
      s.value_dim > limits::kHeadDim) {
    return Fail(ErrorCode::kTooLarge, "more heads, layers or elements per head than limits allow");
  }
  if (batch.groups == 0 || batch.groups > limits::kCacheGroups) return Bad("no cache groups, or too many");
  if (batch.layers.size() > limits::kModelLayers || batch.ropes.size() > limits::kRopeTables ||
      batch.requests.size() > limits::kPlanRequests || batch.sources.size() > limits::kPlanSources) {
    return Fail(ErrorCode::kTooLarge, "more layers, rope tables, requests or records than one plan may have");
  }
  return {};
}

Status CheckRope(const RopeRows& rope, const PayloadShape& shape) {
  const uint64_t element = rope.type == TableType::kF32 ? 4 : 2;
  if (rope.type != TableType::kF32 && rope.type != TableType::kBf16) return Bad("unknown element type");
  if (rope.pairing != Pairing::kNeoxHalves && rope.pairing != Pairing::kInterleaved) return Bad("unknown pairing");
  if (rope.rotary_dims == 0 || rope.rotary_dims % 2 != 0 || rope.rotary_dims > shape.key_dim) {
    return Bad("rotates " + std::to_string(rope.rotary_dims) + " of " + std::to_string(shape.key_dim) + " elements");
  }
  if (rope.rows == nullptr || !AlignedTo(rope.rows, element) || rope.row_stride % element != 0) {
    return Bad("no table, or not aligned to its elements");
  }
  if (rope.row_stride < rope.rotary_dims * element) return Bad("rows overlap");
  return {};
}

Status CheckLayer(const CacheLayer& layer, const KvBatch& batch) {
  if (layer.base == nullptr) return Bad("no cache");
  if (layer.type != CacheType::kBf16 && layer.type != CacheType::kF16 && layer.type != CacheType::kFp8E4m3) {
    return Bad("unknown element type");
  }
  if (layer.record_layer >= batch.shape.layers) return Bad("the record has no such layer");
  if (layer.rope != kNoRope && layer.rope >= batch.ropes.size()) return Bad("no such rope table");
  if (layer.group >= batch.groups) return Bad("no such cache group");
  if (layer.block_size == 0 || layer.blocks_per_entry == 0) return Bad("blocks without tokens");
  if (!(layer.key_scale > 0) || !(layer.value_scale > 0) || !std::isfinite(layer.key_scale) ||
      !std::isfinite(layer.value_scale)) {
    return Bad("scales must be positive");
  }
  if (layer.type != CacheType::kFp8E4m3 && (layer.key_scale != 1.0f || layer.value_scale != 1.0f)) {
    return Bad("only an fp8 cache has scales");
  }
  if (layer.block_stride < 0 || layer.token_stride < 0) return Bad("blocks and tokens must not run backwards");
  const uint32_t element = BytesPerElement(layer.type);
  for (const int64_t stride : {layer.block_stride, layer.head_stride, layer.token_stride, layer.key_offset,
                               layer.value_offset, static_cast<int64_t>(reinterpret_cast<uintptr_t>(layer.base))}) {
    if (stride % element != 0) return Bad("a stride is not a multiple of the element size");
  }
  return {};
}

Status CheckSource(const KvSource& source, const PayloadShape& shape) {
  if (source.encoding < PayloadEncoding::kF16 || source.encoding > PayloadEncoding::kInt4) {
    return Bad("unknown encoding");
  }
  if (source.tokens == 0 || source.tokens > limits::kRecordTokens) return Bad("no tokens, or too many");
  if (source.payload == nullptr || !AlignedTo(source.payload, 16)) return Bad("no payload, or not 16-byte aligned");
  if (IsQuantised(source.encoding) && (source.calibration == nullptr || !AlignedTo(source.calibration, 16))) {
    return Bad("quantised without a calibration, or it is not 16-byte aligned");
  }
  if (source.encoding == PayloadEncoding::kInt4 && (shape.key_dim % 2 != 0 || shape.value_dim % 2 != 0)) {
    return Bad("int4 needs even head sizes");
  }
  const PayloadLayout layout{shape, source.tokens, source.encoding};
  if (source.payload_bytes < layout.Bytes()) {
    return Bad(std::to_string(source.payload_bytes) + " bytes, but its tokens need " + std::to_string(layout.Bytes()));
  }
  if (layout.Bytes() > limits::kRecordBytes) return Fail(ErrorCode::kTooLarge, "larger than a record may be");
  if (!AlignedTo(source.stamp, alignof(RecordStamp)) || !AlignedTo(source.origin, alignof(RecordStamp))) {
    return Bad("a stamp is not aligned");
  }
  return {};
}

// The table's entries for positions [position, position + tokens) in every layer of the group.
Status CheckBlocks(const KvBatch& batch, const KvRequest& request, const KvSpan& span) {
  for (const CacheLayer& layer : batch.layers) {
    const auto& table = request.tables[layer.group];
    const uint64_t per_entry = uint64_t{layer.block_size} * layer.blocks_per_entry;
    const uint64_t last = (uint64_t{span.position} + span.tokens - 1) / per_entry;
    if (last >= table.size()) return Bad("positions beyond the block table");
    for (uint64_t e = span.position / per_entry; e <= last; ++e) {
      const int64_t named = table[e];
      if (named < 0 || named == batch.null_block) continue;
      if ((named + 1) * int64_t{layer.blocks_per_entry} > int64_t{layer.block_count}) {
        return Bad("block " + std::to_string(named) + " is not in the cache");
      }
    }
  }
  return {};
}

Status CheckSpan(const KvBatch& batch, const KvRequest& request, const KvSpan& span, bool extract) {
  if (span.source >= batch.sources.size()) return Bad("no such record");
  const uint64_t tokens = batch.sources[span.source].tokens;
  if (uint64_t{span.source_first} + span.tokens > tokens) return Bad("tokens beyond the record");
  if (uint64_t{span.position} + span.tokens > limits::kContextTokensMax) return Bad("positions beyond the context");
  if (extract && batch.sources[span.source].stamp != nullptr) return Bad("a stamped record cannot be written");
  for (const CacheLayer& layer : batch.layers) {
    if (layer.rope != kNoRope && uint64_t{span.position} + span.tokens > batch.ropes[layer.rope].positions) {
      return Bad("positions beyond the rope table");
    }
  }
  return CheckBlocks(batch, request, span);
}

Status CheckRequest(const KvBatch& batch, const KvRequest& request, bool extract, uint64_t& tokens, uint64_t& blocks) {
  if (request.tables.size() != batch.groups) return Bad("needs one block table per cache group");
  for (const auto& table : request.tables) blocks += table.size();
  for (size_t i = 0; i < request.spans.size(); ++i) {
    if (request.spans[i].tokens == 0) continue;
    if (Status status = CheckSpan(batch, request, request.spans[i], extract); !status) {
      return Wrap(status.error(), "span " + std::to_string(i));
    }
    tokens += request.spans[i].tokens;
  }
  return {};
}

template <class T, class Check>
Status CheckEach(std::span<const T> items, const char* what, Check check) {
  for (size_t i = 0; i < items.size(); ++i) {
    if (Status status = check(items[i]); !status) {
      return Fail(status.error().code, Named(what, i) + status.error().message);
    }
  }
  return {};
}

}  // namespace

Status CheckKvBatch(const KvBatch& batch, KvDirection direction) {
  const bool extract = direction == KvDirection::kExtract;
  TRY(CheckSizes(batch));
  TRY(CheckEach(batch.ropes, "rope table", [&](const RopeRows& rope) { return CheckRope(rope, batch.shape); }));
  TRY(CheckEach(batch.layers, "layer", [&](const CacheLayer& layer) { return CheckLayer(layer, batch); }));
  TRY(CheckEach(batch.sources, "record", [&](const KvSource& source) { return CheckSource(source, batch.shape); }));
  uint64_t tokens = 0, blocks = 0, spans = 0;
  TRY(CheckEach(batch.requests, "request", [&](const KvRequest& request) {
    spans += request.spans.size();
    return CheckRequest(batch, request, extract, tokens, blocks);
  }));
  if (tokens > limits::kPlanTokens || spans > limits::kPlanSources || blocks > limits::kPlanBlocks) {
    return Fail(ErrorCode::kTooLarge, "more tokens, spans or blocks than one plan may have");
  }
  return {};
}

bool MovesInVectors(const KvBatch& batch, KvDirection direction) {
  // A thread has two groups of eight elements of a row.
  if (batch.shape.key_dim % 16 != 0 || batch.shape.value_dim % 16 != 0) return false;
  const uint32_t groups = (batch.shape.key_dim + batch.shape.value_dim) / 16;
  if (groups > 128) return false;  // threads of a token: at least two tokens in a thread block of 256
  for (const RopeRows& rope : batch.ropes) {
    // Groups rotate whole or not at all, and tables are read four numbers at a time.
    const uint32_t whole = rope.pairing == Pairing::kNeoxHalves ? 16 : 8;
    const uint64_t element = rope.type == TableType::kF32 ? 4 : 2;
    if (rope.rotary_dims % whole != 0 || rope.row_stride % (4 * element) != 0) return false;
    if (!AlignedTo(rope.rows, 4 * element)) return false;
  }
  for (const CacheLayer& layer : batch.layers) {
    const int64_t group = 8 * BytesPerElement(layer.type);
    for (const int64_t stride : {layer.block_stride, layer.head_stride, layer.token_stride, layer.key_offset,
                                 layer.value_offset, static_cast<int64_t>(reinterpret_cast<uintptr_t>(layer.base))}) {
      if (stride % group != 0) return false;
    }
  }
  // Rows are copied 16 bytes at a time: of int4, 32 elements.
  const bool whole = batch.shape.key_dim % 32 == 0 && batch.shape.value_dim % 32 == 0;
  for (const KvSource& source : batch.sources) {
    if (source.encoding == PayloadEncoding::kInt4 && !whole) return false;
  }
  if (direction == KvDirection::kInject) return true;
  // Extraction finds a row's largest value among the threads of the row: they must be in one warp.
  const uint32_t row = batch.shape.value_dim / 16;
  const bool in_warp = row <= 32 && (row & (row - 1)) == 0 && batch.shape.key_dim == batch.shape.value_dim;
  for (const KvSource& source : batch.sources) {
    if (IsQuantised(source.encoding) && !in_warp) return false;
  }
  return true;
}

}  // namespace inferscale::kernels
