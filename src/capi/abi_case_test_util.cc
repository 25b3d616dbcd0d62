#include "capi/abi_case_test_util.h"

#include <gtest/gtest.h>

namespace inferscale::capi {
namespace {

inferscale_layer ToAbi(const kernels::CacheLayer& layer) {
  return {.base = layer.base,
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
          .type = static_cast<uint32_t>(layer.type)};
}

inferscale_record ToAbi(const kernels::KvSource& source) {
  return {
      .payload = source.payload,
      .payload_bytes = source.payload_bytes,
      .stamp = reinterpret_cast<const inferscale_stamp*>(source.stamp),
      .origin = reinterpret_cast<const inferscale_stamp*>(source.origin),
      .expected = {{source.expected.id[0], source.expected.id[1]}, source.expected.version, source.expected.generation},
      .calibration = source.calibration,
      .tokens = source.tokens,
      .encoding = static_cast<uint32_t>(source.encoding)};
}

}  // namespace

AbiBatch::AbiBatch(const kernels::KvBatch& batch) {
  for (const auto& layer : batch.layers) layers_.push_back(ToAbi(layer));
  for (const auto& rope : batch.ropes) {
    ropes_.push_back({rope.rows, rope.row_stride, rope.positions, rope.rotary_dims, static_cast<uint32_t>(rope.type),
                      static_cast<uint32_t>(rope.pairing)});
  }
  for (const auto& source : batch.sources) records_.push_back(ToAbi(source));
  for (const auto& request : batch.requests) TakeRequest(request);
  uint32_t tokens = 0;
  for (const auto& span : spans_) tokens += span.tokens;
  options_ = {.struct_bytes = sizeof options_,
              .ring = 4,
              .max_records = static_cast<uint32_t>(records_.size()),
              .max_spans = static_cast<uint32_t>(spans_.size()),
              .max_requests = static_cast<uint32_t>(requests_.size()),
              .max_tokens = tokens,
              .max_blocks = static_cast<uint32_t>(blocks_.size()),
              .null_block = batch.null_block,
              .shape = {batch.shape.heads, batch.shape.layers, batch.shape.key_dim, batch.shape.value_dim},
              .layers = layers_.data(),
              .ropes = ropes_.data(),
              .layer_count = static_cast<uint32_t>(layers_.size()),
              .rope_count = static_cast<uint32_t>(ropes_.size()),
              .group_count = batch.groups};
  batch_ = {.struct_bytes = sizeof batch_,
            .record_count = static_cast<uint32_t>(records_.size()),
            .span_count = static_cast<uint32_t>(spans_.size()),
            .request_count = static_cast<uint32_t>(requests_.size()),
            .block_count = static_cast<uint32_t>(blocks_.size()),
            .records = records_.data(),
            .spans = spans_.data(),
            .requests = requests_.data(),
            .tables = tables_.data(),
            .blocks = blocks_.data()};
}

void AbiBatch::TakeRequest(const kernels::KvRequest& request) {
  requests_.push_back({static_cast<uint32_t>(spans_.size()), static_cast<uint32_t>(request.spans.size())});
  for (const auto& span : request.spans) {
    spans_.push_back({span.source, span.source_first, span.tokens, span.position});
  }
  for (const auto& table : request.tables) {
    tables_.push_back({static_cast<uint32_t>(blocks_.size()), static_cast<uint32_t>(table.size())});
    blocks_.insert(blocks_.end(), table.begin(), table.end());
  }
}

api::Device OpenDevice(uint32_t kind) {
  api::Device device;
  EXPECT_EQ(inferscale_device_open(kind, 0, api::Into(device)), INFERSCALE_OK) << inferscale_last_error();
  return device;
}

api::Transfer OpenTransfer(const api::Device& device, const inferscale_transfer_options& options) {
  api::Transfer transfer;
  EXPECT_EQ(inferscale_transfer_open(device.get(), &options, api::Into(transfer)), INFERSCALE_OK)
      << inferscale_last_error();
  return transfer;
}

std::vector<uint32_t> RunThroughAbi(const api::Device& device, const kernels::KvBatch& batch,
                                    kernels::KvDirection direction, void* stream) {
  const AbiBatch given(batch);
  const api::Transfer transfer = OpenTransfer(device, given.options());
  const auto launch = direction == kernels::KvDirection::kInject ? inferscale_inject : inferscale_extract;
  uint64_t ticket = 0;
  EXPECT_EQ(launch(transfer.get(), &given.batch(), stream, &ticket), INFERSCALE_OK) << inferscale_last_error();
  std::vector<uint32_t> words(given.batch().record_count, 0xDEADu);
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), ticket, words.data(), static_cast<uint32_t>(words.size())),
            INFERSCALE_OK)
      << inferscale_last_error();
  return words;
}

}  // namespace inferscale::capi
