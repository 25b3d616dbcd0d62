#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "base/limits.h"
#include "kernels/kv_case_test_util.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {
namespace {

using Change = std::function<void(KvBatch&, std::vector<KvSource>&, std::vector<CacheLayer>&, std::vector<RopeRows>&,
                                  std::vector<KvSpan>&)>;

// BuildKvPlan's answer for the first request of a good batch, changed.
Status Changed(const Change& change, KvDirection direction = KvDirection::kInject) {
  KvCaseSpec spec;
  spec.rotary_dims = 64;
  KvCase test(spec, direction);
  std::vector<uint8_t> memory = test.memory();
  KvBatch batch = test.Batch(memory.data());
  std::vector<KvSource> sources(batch.sources.begin(), batch.sources.end());
  std::vector<CacheLayer> layers(batch.layers.begin(), batch.layers.end());
  std::vector<RopeRows> ropes(batch.ropes.begin(), batch.ropes.end());
  std::vector<KvSpan> spans(batch.requests[0].spans.begin(), batch.requests[0].spans.end());
  const KvRequest request{spans, batch.requests[0].tables};
  batch.sources = sources, batch.layers = layers, batch.ropes = ropes, batch.requests = {&request, 1};
  change(batch, sources, layers, ropes, spans);
  std::vector<uint8_t> buffer(KvPlanBytes(batch));
  const Result<KvPlan> plan = BuildKvPlan(batch, direction, buffer);
  if (!plan) return tl::unexpected<Error>(plan.error());
  return {};
}

#define UNUSED (void)batch, (void)sources, (void)layers, (void)ropes, (void)spans
#define CHANGE(...)                                                           \
  [](KvBatch& batch, auto& sources, auto& layers, auto& ropes, auto& spans) { \
    UNUSED;                                                                   \
    (void)(__VA_ARGS__);                                                      \
  }

struct Bad {
  const char* message;  // part of it
  Change change;
};

std::vector<Bad> AllThatIsBad() {
  return {
      {"without elements", CHANGE(batch.shape.heads = 0)},
      {"more heads", CHANGE(batch.shape.key_dim = limits::kHeadDim + 1)},
      {"cache groups", CHANGE(batch.groups = 0)},
      {"one block table per", CHANGE(batch.groups = 2)},
      {"rotates 63", CHANGE(ropes[0].rotary_dims = 63)},
      {"rotates 66", CHANGE(ropes[0].rotary_dims = 66)},
      {"rows overlap", CHANGE(ropes[0].row_stride = 4)},
      {"no table", CHANGE(ropes[0].rows = nullptr)},
      {"beyond the rope table", CHANGE(ropes[0].positions = 5)},
      {"no cache", CHANGE(layers[1].base = nullptr)},
      {"no such layer", CHANGE(layers[1].record_layer = 3)},
      {"no such rope table", CHANGE(layers[1].rope = 1)},
      {"no such cache group", CHANGE(layers[1].group = 1)},
      {"blocks without tokens", CHANGE(layers[1].block_size = 0)},
      {"must be positive", CHANGE(layers[1].key_scale = -1)},
      {"only an fp8 cache", CHANGE(layers[1].value_scale = 2)},
      {"multiple of the element", CHANGE(layers[1].head_stride = 33)},
      {"must not run backwards", CHANGE(layers[1].block_stride = -64)},
      {"is not in the cache", CHANGE(layers[1].block_count = 1)},
      {"beyond the block table", CHANGE(layers[1].block_size = 1)},
      {"no tokens", CHANGE(sources[0].tokens = 0)},
      {"its tokens need", CHANGE(--sources[0].payload_bytes)},
      {"16-byte aligned", CHANGE(sources[0].payload += 8)},
      {"without a calibration", CHANGE(sources[0].encoding = PayloadEncoding::kInt8, sources[0].calibration = nullptr)},
      {"unknown encoding", CHANGE(sources[0].encoding = static_cast<PayloadEncoding>(9))},
      {"no such record", CHANGE(spans[0].source = 99)},
      {"beyond the record", CHANGE(spans[0].source_first = 1)},
      {"beyond the record", CHANGE(spans[0].source_first = 0xFFFFFFFF)},
      {"beyond the context", CHANGE(spans[0].position = 0xFFFFFFF0)},
  };
}

TEST(KvPlan, RefusesWhatTheKernelsCannotTrust) {
  ASSERT_TRUE(Changed(CHANGE(true)));
  for (const Bad& bad : AllThatIsBad()) {
    const Status status = Changed(bad.change);
    ASSERT_FALSE(status) << bad.message;
    EXPECT_NE(status.error().message.find(bad.message), std::string::npos) << status.error().message;
  }
}

TEST(KvPlan, ExtractionWritesNoStampedRecord) {
  static const RecordStamp kStamp;
  ASSERT_TRUE(Changed(CHANGE(true), KvDirection::kExtract));
  EXPECT_FALSE(Changed(CHANGE(sources[0].stamp = &kStamp), KvDirection::kExtract));
}

TEST(KvPlan, SaysWhetherVectorsFit) {
  const auto vectors = [](KvCaseSpec spec, KvDirection direction = KvDirection::kInject) {
    KvCase test(std::move(spec), direction);
    // Cases align to 256 from the start of their memory.
    alignas(256) static uint8_t base[1];
    std::vector<uint8_t> buffer(KvPlanBytes(test.Batch(base)));
    const Result<KvPlan> plan = BuildKvPlan(test.Batch(base), direction, buffer);
    return plan.value().View(buffer.data()).vectors;
  };
  EXPECT_TRUE(vectors({.rotary_dims = 64}));
  EXPECT_TRUE(vectors({.pairing = Pairing::kInterleaved, .rotary_dims = 24}));
  EXPECT_TRUE(vectors({.pairing = Pairing::kNeoxHalves, .rotary_dims = 48}));
  EXPECT_FALSE(vectors({.pairing = Pairing::kNeoxHalves, .rotary_dims = 24}));
  EXPECT_FALSE(vectors({.key_dim = 24, .value_dim = 24}));
  EXPECT_FALSE(vectors({.pad = 1}));
  EXPECT_FALSE(vectors({.shift = 1}));
  const std::vector<PayloadEncoding> int8 = {PayloadEncoding::kInt8};
  EXPECT_TRUE(vectors({.encodings = int8}, KvDirection::kExtract));
  EXPECT_FALSE(vectors({.encodings = int8, .key_dim = 96, .value_dim = 96}, KvDirection::kExtract));
}

TEST(KvPlan, NeedsItsBytes) {
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  std::vector<uint8_t> memory = test.memory();
  const KvBatch& batch = test.Batch(memory.data());
  std::vector<uint8_t> buffer(KvPlanBytes(batch));
  EXPECT_TRUE(BuildKvPlan(batch, KvDirection::kInject, buffer));
  EXPECT_FALSE(BuildKvPlan(batch, KvDirection::kInject, std::span(buffer).first(buffer.size() - 1)));
  EXPECT_FALSE(BuildKvPlan(batch, KvDirection::kInject, std::span(buffer).subspan(1)));
}

TEST(KvPayload, SizesOfTheHeadersExample) {
  const PayloadShape llama{8, 32, 128, 128};
  EXPECT_EQ((PayloadLayout{llama, 27, PayloadEncoding::kBf16}.Bytes()), 3'538'944u);
  EXPECT_EQ((PayloadLayout{llama, 27, PayloadEncoding::kInt8}.Bytes()), 1'783'296u);
  EXPECT_EQ((PayloadLayout{llama, 27, PayloadEncoding::kInt4}.Bytes()), 898'560u);
}

}  // namespace
}  // namespace inferscale::kernels
