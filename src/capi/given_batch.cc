#include "capi/given_batch.h"

#include <cstddef>
#include <string>

#include "base/limits.h"
#include "capi/sized_struct.h"
#include "kernels/kv_plan_check.h"

namespace inferscale::capi {
namespace {

using kernels::CacheLayer;
using kernels::KvBatch;
using kernels::KvSource;
using kernels::KvSpan;
using kernels::RecordStamp;
using kernels::RopeRows;

tl::unexpected<Error> Bad(std::string what) { return Fail(ErrorCode::kInvalidArgument, std::move(what)); }

Status CheckMost(const char* what, uint64_t count, uint64_t most, const char* whose) {
  if (count <= most) return {};
  return Fail(ErrorCode::kTooLarge,
              std::to_string(count) + " " + what + ": " + whose + " at most " + std::to_string(most));
}

// [first, first + count) of an array of `size`.
bool IsWithin(uint32_t first, uint32_t count, uint32_t size) { return first <= size && count <= size - first; }

CacheLayer ToLayer(const inferscale_layer& layer) {
  return {.base = static_cast<uint8_t*>(layer.base),
          .block_stride = layer.block_stride,
          .head_stride = layer.head_stride,
          .token_stride = layer.token_stride,
          .key_offset = layer.key_offset,
          .value_offset = layer.value_offset,
          .key_scale = layer.key_scale,
          .value_scale = layer.value_scale,
          .record_layer = layer.record_layer,
          .rope = layer.rope,
          .group = layer.group,
          .block_size = layer.block_size,
          .blocks_per_entry = layer.blocks_per_entry,
          .block_count = layer.block_count,
          .type = Narrow<kernels::CacheType>(layer.type)};
}

RopeRows ToRope(const inferscale_rope& rope) {
  return {rope.rows,
          rope.row_stride,
          rope.positions,
          rope.rotary_dims,
          Narrow<kernels::TableType>(rope.type),
          Narrow<kernels::Pairing>(rope.pairing)};
}

KvSource ToSource(const inferscale_record& record) {
  return {.payload = static_cast<uint8_t*>(record.payload),
          .payload_bytes = record.payload_bytes,
          .stamp = ToStampAddress(record.stamp),
          .origin = ToStampAddress(record.origin),
          .expected = ToStamp(record.expected),
          .calibration = static_cast<const kernels::KeyQuant*>(record.calibration),
          .tokens = record.tokens,
          .encoding = Narrow<kernels::PayloadEncoding>(record.encoding)};
}

Status CheckOptions(const inferscale_transfer_options& o) {
  constexpr const char* kWhose = "a transfer may have";
  if (o.ring == 0) return Bad("options: ring is 0, it needs at least 1");
  TRY(CheckMost("plans in the ring", o.ring, limits::kTransferRing, kWhose));
  TRY(CheckMost("records", o.max_records, limits::kPlanSources, kWhose));
  TRY(CheckMost("spans", o.max_spans, limits::kPlanSources, kWhose));
  TRY(CheckMost("requests", o.max_requests, limits::kPlanRequests, kWhose));
  TRY(CheckMost("tokens", o.max_tokens, limits::kPlanTokens, kWhose));
  TRY(CheckMost("blocks", o.max_blocks, limits::kPlanBlocks, kWhose));
  TRY(CheckMost("layers", o.layer_count, limits::kModelLayers, kWhose));
  TRY(CheckMost("rope tables", o.rope_count, limits::kRopeTables, kWhose));
  if ((o.layer_count > 0 && o.layers == nullptr) || (o.rope_count > 0 && o.ropes == nullptr)) {
    return Bad("options: layers or ropes are null, but counted");
  }
  return {};
}

}  // namespace

RecordStamp ToStamp(const inferscale_stamp& stamp) {
  return {{stamp.id[0], stamp.id[1]}, stamp.version, stamp.generation};
}

kernels::PayloadShape ToShape(const inferscale_shape& shape) {
  return {shape.heads, shape.layers, shape.key_dim, shape.value_dim};
}

// The same bytes; where they are 16-byte aligned, which is checked before anybody reads them.
const RecordStamp* ToStampAddress(const inferscale_stamp* stamp) {
  static_assert(sizeof(inferscale_stamp) == sizeof(RecordStamp));
  static_assert(offsetof(inferscale_stamp, generation) == offsetof(RecordStamp, generation));
  return reinterpret_cast<const RecordStamp*>(stamp);
}

GivenBatch::GivenBatch(const inferscale_transfer_options& options) : options_(options) {
  sources_.reserve(options.max_records);
  spans_.reserve(options.max_spans);
  requests_.reserve(options.max_requests);
  tables_.reserve(size_t{options.max_requests} * options.group_count);
}

Result<GivenBatch> GivenBatch::Make(const inferscale_transfer_options* options) {
  TRY_ASSIGN(const inferscale_transfer_options taken, TakeStruct(options, "options"));
  TRY(CheckOptions(taken));
  if (taken.group_count == 0 || taken.group_count > limits::kCacheGroups) {
    return Bad("options: group_count is " + std::to_string(taken.group_count) + ", it is 1 to " +
               std::to_string(limits::kCacheGroups));
  }
  GivenBatch batch(taken);
  TRY(batch.TakeCache());
  return batch;
}

Status GivenBatch::TakeCache() {
  for (uint32_t l = 0; l < options_.layer_count; ++l) {
    if (options_.layers[l].reserved != 0) return Bad("layer " + std::to_string(l) + ": reserved is not 0");
    layers_.push_back(ToLayer(options_.layers[l]));
  }
  for (uint32_t i = 0; i < options_.rope_count; ++i) ropes_.push_back(ToRope(options_.ropes[i]));
  options_.layers = nullptr, options_.ropes = nullptr;  // the caller's
  const KvBatch empty{
      .shape = ToShape(options_.shape), .layers = layers_, .ropes = ropes_, .groups = options_.group_count};
  return kernels::CheckKvBatch(empty, kernels::KvDirection::kInject);
}

size_t GivenBatch::PlanBytes() const {
  const auto part = [](size_t count, size_t bytes) { return count * bytes + 15; };  // parts are 16-byte aligned
  const inferscale_transfer_options& o = options_;
  return part(o.max_records, sizeof(KvSource)) + part(o.max_spans, sizeof(kernels::KvPlanSpan)) +
         part(o.max_tokens / kernels::kPlanTile + 1, sizeof(kernels::KvPlanTile)) +
         part(layers_.size(), sizeof(CacheLayer)) + part(ropes_.size(), sizeof(RopeRows)) +
         part(size_t{o.max_requests} * o.group_count, sizeof(uint32_t)) + part(o.max_blocks, sizeof(int32_t)) +
         part(o.max_records, sizeof(uint32_t));
}

Status GivenBatch::TakeRequest(const inferscale_batch& given, uint32_t r) {
  const inferscale_request& request = given.requests[r];
  const auto bad = [r](const char* what) { return Bad("request " + std::to_string(r) + ": " + what); };
  if (!IsWithin(request.span_first, request.span_count, given.span_count)) return bad("spans beyond the batch");
  TRY(CheckMost("spans of all requests", spans_.size() + request.span_count, options_.max_spans, "the transfer has"));
  const size_t first_span = spans_.size(), first_table = tables_.size();
  for (uint32_t s = 0; s < request.span_count; ++s) {
    const inferscale_span& span = given.spans[request.span_first + s];
    spans_.push_back({span.record, span.record_first, span.tokens, span.position});
    tokens_ += span.tokens;
  }
  for (uint32_t g = 0; g < options_.group_count; ++g) {
    const inferscale_table& table = given.tables[size_t{r} * options_.group_count + g];
    if (!IsWithin(table.block_first, table.block_count, given.block_count)) return bad("blocks beyond the batch");
    blocks_ += table.block_count;
    tables_.emplace_back(given.blocks + table.block_first, table.block_count);
  }
  requests_.push_back({std::span(spans_).subspan(first_span), std::span(tables_).subspan(first_table)});
  return {};
}

Result<const KvBatch*> GivenBatch::Convert(const inferscale_batch* given_batch) {
  TRY_ASSIGN(const inferscale_batch given, TakeStruct(given_batch, "batch"));
  if ((given.record_count > 0 && given.records == nullptr) || (given.span_count > 0 && given.spans == nullptr) ||
      (given.request_count > 0 && (given.requests == nullptr || given.tables == nullptr)) ||
      (given.block_count > 0 && given.blocks == nullptr)) {
    return Bad("batch: records, spans, requests, tables or blocks are null, but counted");
  }
  constexpr const char* kWhose = "the transfer has";
  TRY(CheckMost("records", given.record_count, options_.max_records, kWhose));
  TRY(CheckMost("requests", given.request_count, options_.max_requests, kWhose));
  sources_.clear(), spans_.clear(), tables_.clear(), requests_.clear();
  for (uint32_t i = 0; i < given.record_count; ++i) sources_.push_back(ToSource(given.records[i]));
  tokens_ = 0, blocks_ = 0;
  for (uint32_t r = 0; r < given.request_count; ++r) TRY(TakeRequest(given, r));
  TRY(CheckMost("tokens", tokens_, options_.max_tokens, kWhose));
  TRY(CheckMost("blocks", blocks_, options_.max_blocks, kWhose));
  batch_ = {.shape = ToShape(options_.shape),
            .sources = sources_,
            .requests = requests_,
            .layers = layers_,
            .ropes = ropes_,
            .groups = options_.group_count,
            .null_block = options_.null_block};
  return &batch_;
}

}  // namespace inferscale::capi
