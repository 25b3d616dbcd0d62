// Inject and extract on a GPU, beside a device copy of the same bytes in the same run.
//
//   cuda_inject_bench [inject | extract | sweep | one]…
//
// Everything rotates through at least 1 GB of sources and as much of targets, so that the L2 cache (50 MB) is cold; the
// copies do the same. A time is the median over rounds of (one round / its launches). The cache is vLLM's packed NHD
// layout with blocks of 16 in random order, facts are 30 tokens in random places. Tables: f32.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "bench/cuda_bench_util.h"
#include "kernels/cuda/kv_transfer.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {
namespace {

struct Shape {
  const char* name;
  uint32_t layers, heads, dim;
};
constexpr Shape kLlama8B{"Llama-3.1-8B", 32, 8, 128};
constexpr Shape kQwen7B{"Qwen2.5-7B", 28, 4, 128};
constexpr Shape kGemma3{"Gemma-3-1B", 26, 1, 256};
constexpr Shape kLlama70BTp8{"70B TP8", 80, 1, 128};

struct Work {
  Shape shape;
  uint32_t requests = 1, tokens = 1500;
  PayloadEncoding encoding = PayloadEncoding::kBf16;
  CacheType type = CacheType::kBf16;
};

const char* Name(PayloadEncoding encoding) {
  constexpr const char* kNames[] = {"", "f16", "bf16", "int8", "int4"};
  return kNames[static_cast<int>(encoding)];
}

constexpr uint64_t kOnes = 0x0101010101010101;
constexpr uint32_t kFactTokens = 30, kBlock = 16, kPositions = 8192;

// One plan on the device for each round's launch.
class Bench {
 public:
  Bench(const Work& work, Pools& pools) : work_(work), pools_(pools) {
    const Shape& s = work.shape;
    const PayloadShape shape{s.heads, s.layers, s.dim, s.dim};
    const uint32_t facts = work.requests * ((work.tokens + kFactTokens - 1) / kFactTokens);
    const PayloadLayout fact{shape, kFactTokens, work.encoding};
    slot_ = (fact.Bytes() + kStampBytes + 255) / 256 * 256;
    const uint64_t tokens = uint64_t{work.requests} * work.tokens;
    row_ = 2 * s.dim * BytesPerElement(work.type);
    target_bytes_ = tokens * s.layers * s.heads * row_;
    source_bytes_ = fact.Bytes() * tokens / kFactTokens;
    variants_ = std::max<size_t>(
        2, (pools.rotated + std::min(source_bytes_, target_bytes_) - 1) / std::min(source_bytes_, target_bytes_));
    blocks_per_request_ = (work.tokens + kBlock - 1) / kBlock;
    blocks_ = variants_ * work.requests * blocks_per_request_;
    Check(variants_ * facts * slot_ <= pools.bytes && blocks_ * s.layers * s.heads * row_ * kBlock <= pools.bytes,
          "pool too small");
    // The stamp that every plan expects, before every payload.
    Cuda(cudaMemset2D(pools_.source, slot_, 1, sizeof(RecordStamp), variants_ * facts));
    MakePlans(shape, facts);
  }

  // Microseconds of a launch, with `variants` of them in a round.
  double Time(const std::function<void(size_t)>& launch) const { return TimeRounds(variants_, launch); }
  double TimeInject(KvLaunchOptions options = {}) const {
    return Time([&](size_t v) { Check(InjectCuda(views_[v], nullptr, options) == 0, "inject"); });
  }
  double TimeExtract() const {
    return Time([&](size_t v) { Check(ExtractCuda(views_[v], nullptr) == 0, "extract"); });
  }
  double TimeCopy() const {
    const size_t bytes = (source_bytes_ + target_bytes_) / 2 / 256 * 256;
    return Time([&](size_t v) {
      Cuda(cudaMemcpyAsync(pools_.target + v * bytes, pools_.source + v * bytes, bytes, cudaMemcpyDeviceToDevice));
    });
  }
  // Of one launch on an idle device.
  double TimeAlone() const {
    return TimeSingles(variants_, [&](size_t v) { Check(InjectCuda(views_[v], nullptr) == 0, "inject"); });
  }
  double build_us() const { return build_us_; }
  size_t plan_bytes() const { return plan_bytes_; }
  size_t bytes() const { return source_bytes_ + target_bytes_; }
  const KvPlanView& view(size_t v) const { return views_[v]; }

 private:
  void MakePlans(const PayloadShape& shape, uint32_t facts) {
    std::mt19937 random(7);
    std::vector<size_t> slots(variants_ * facts);
    for (size_t i = 0; i < slots.size(); ++i) slots[i] = i;
    std::shuffle(slots.begin(), slots.end(), random);
    std::vector<int32_t> blocks(blocks_);
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
    if (shuffled) std::shuffle(blocks.begin(), blocks.end(), random);
    const RopeRows rope{pools_.table,    uint64_t{shape.key_dim} * 4, kPositions, shape.key_dim,
                        TableType::kF32, Pairing::kNeoxHalves};
    std::vector<CacheLayer> layers;
    for (uint32_t l = 0; l < shape.layers; ++l) {
      layers.push_back({.base = pools_.target + l * blocks_ * shape.heads * row_ * kBlock,
                        .block_stride = static_cast<int64_t>(shape.heads * row_ * kBlock),
                        .head_stride = static_cast<int64_t>(row_),
                        .token_stride = static_cast<int64_t>(shape.heads * row_),
                        .value_offset = static_cast<int64_t>(row_ / 2),
                        .record_layer = l,
                        .rope = 0,
                        .block_size = kBlock,
                        .block_count = static_cast<uint32_t>(blocks_),
                        .type = work_.type});
    }
    for (size_t v = 0; v < variants_; ++v) MakePlan(v, shape, facts, slots, blocks, rope, layers);
  }

  void MakePlan(size_t v, const PayloadShape& shape, uint32_t facts, const std::vector<size_t>& slots,
                const std::vector<int32_t>& blocks, const RopeRows& rope, const std::vector<CacheLayer>& layers) {
    std::vector<KvSource> sources;
    for (uint32_t f = 0; f < facts; ++f) {
      uint8_t* slot = pools_.source + slots[v * facts + f] * slot_;
      sources.push_back({.payload = slot + kStampBytes,
                         .payload_bytes = slot_ - kStampBytes,
                         .stamp = stamped ? reinterpret_cast<const RecordStamp*>(slot) : nullptr,
                         .expected = {{kOnes, kOnes}, kOnes, kOnes},
                         .calibration = reinterpret_cast<const KeyQuant*>(pools_.table),
                         .tokens = kFactTokens,
                         .encoding = work_.encoding});
    }
    std::vector<std::vector<KvSpan>> spans(work_.requests);
    std::vector<std::span<const int32_t>> tables;
    std::vector<KvRequest> requests;
    for (uint32_t r = 0; r < work_.requests; ++r) {
      for (uint32_t t = 0; t < work_.tokens; t += kFactTokens) {
        const uint32_t source = r * (facts / work_.requests) + t / kFactTokens;
        spans[r].push_back({source, 0, std::min(kFactTokens, work_.tokens - t), t});
      }
      tables.emplace_back(blocks.data() + (v * work_.requests + r) * blocks_per_request_, blocks_per_request_);
    }
    for (uint32_t r = 0; r < work_.requests; ++r) requests.push_back({spans[r], {&tables[r], 1}});
    const KvBatch batch{shape, sources, requests, layers, {&rope, 1}};
    std::vector<uint8_t> host(KvPlanBytes(batch));
    Result<KvPlan> plan = BuildKvPlan(batch, KvDirection::kInject, host);
    const auto start = std::chrono::steady_clock::now();
    plan = BuildKvPlan(batch, KvDirection::kInject, host);
    build_us_ = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
    Check(plan.has_value(), plan ? "" : plan.error().message.c_str());
    plan_bytes_ = plan->bytes();
    buffers_.push_back(std::make_unique<DeviceBuffer>(host));
    views_.push_back(plan->View(buffers_.back()->data()));
  }

 public:
  static inline bool stamped = true;
  static inline bool shuffled = true;  // the cache's blocks

 private:
  const Work work_;
  Pools& pools_;
  size_t slot_ = 0, row_ = 0, source_bytes_ = 0, target_bytes_ = 0, variants_ = 0, blocks_ = 0, plan_bytes_ = 0;
  uint32_t blocks_per_request_ = 0;
  double build_us_ = 0;
  std::vector<std::unique_ptr<DeviceBuffer>> buffers_;
  std::vector<KvPlanView> views_;
};

std::string Label(const Work& work) {
  char text[128];
  std::snprintf(text, sizeof text, "%-13s %3u x %-5u %-5s -> %s", work.shape.name, work.requests, work.tokens,
                Name(work.encoding), work.type == CacheType::kFp8E4m3 ? "fp8" : "bf16");
  return text;
}

std::vector<Work> Works() {
  std::vector<Work> all;
  for (const Shape& shape : {kLlama8B, kQwen7B, kGemma3, kLlama70BTp8}) {
    for (const PayloadEncoding encoding : {PayloadEncoding::kBf16, PayloadEncoding::kInt8, PayloadEncoding::kInt4}) {
      for (const uint32_t tokens : {300u, 1500u, 6000u}) all.push_back({shape, 1, tokens, encoding, CacheType::kBf16});
      all.push_back({shape, 64, 300, encoding, CacheType::kBf16});
    }
    all.push_back({shape, 1, 1500, PayloadEncoding::kBf16, CacheType::kFp8E4m3});
  }
  return all;
}

void RunInject(Pools& pools) {
  std::printf("%-44s %8s %8s %7s %6s %7s %7s %8s %8s\n", "inject", "MB moved", "us", "copy us", "ratio", "TB/s",
              "alone", "plan KB", "build us");
  for (const Work& work : Works()) {
    const Bench bench(work, pools);
    const double copy = bench.TimeCopy(), time = bench.TimeInject(), alone = bench.TimeAlone();
    std::printf("%-44s %8.1f %8.1f %7.1f %6.3f %7.2f %7.1f %8.1f %8.1f\n", Label(work).c_str(), bench.bytes() / 1e6,
                time, copy, copy / time, bench.bytes() / time / 1e6, alone, bench.plan_bytes() / 1e3, bench.build_us());
  }
}

void RunExtract(Pools& pools) {
  Bench::stamped = false;
  std::printf("%-44s %8s %8s %7s %6s %7s\n", "extract", "MB moved", "us", "copy us", "ratio", "TB/s");
  for (const Work& work : Works()) {
    if (work.tokens != 1500) continue;
    const Bench bench(work, pools);
    const double copy = bench.TimeCopy(), time = bench.TimeExtract();
    std::printf("%-44s %8.1f %8.1f %7.1f %6.3f %7.2f\n", Label(work).c_str(), bench.bytes() / 1e6, time, copy,
                copy / time, bench.bytes() / time / 1e6);
  }
  Bench::stamped = true;
}

void RunSweep(Pools& pools) {
  std::printf("%-44s %s\n", "ratio to copy by pairs per block",
              "    4     8    16    32    64  | chosen, no stamps, blocks in order");
  for (const Work& work : Works()) {
    if (work.shape.heads == 4 || (work.requests > 1 && work.shape.heads == 1)) continue;
    const Bench bench(work, pools);
    const double copy = bench.TimeCopy();
    std::printf("%-44s", Label(work).c_str());
    for (const uint32_t pairs : {4u, 8u, 16u, 32u, 64u}) std::printf(" %.3f", copy / bench.TimeInject({pairs}));
    std::printf("  | %.3f", copy / bench.TimeInject());
    Bench::stamped = false;
    std::printf(" %.3f", copy / Bench(work, pools).TimeInject());
    Bench::stamped = true;
    Bench::shuffled = false;
    std::printf(" %.3f\n", copy / Bench(work, pools).TimeInject());
    Bench::shuffled = true;
  }
}

// For a profiler: few launches of the two sizes that matter.
void RunOne(Pools& pools) {
  for (const PayloadEncoding encoding : {PayloadEncoding::kBf16, PayloadEncoding::kInt8, PayloadEncoding::kInt4}) {
    for (const uint32_t tokens : {300u, 1500u}) {
      const Bench bench({kLlama8B, 1, tokens, encoding, CacheType::kBf16}, pools);
      Check(InjectCuda(bench.view(0), nullptr) == 0 && InjectCuda(bench.view(1), nullptr) == 0, "inject");
      Cuda(cudaDeviceSynchronize());
    }
  }
}

}  // namespace
}  // namespace inferscale::kernels

int main(int argc, char** argv) {
  using namespace inferscale::kernels;
  // A profiler saves and restores all of it for every pass.
  const bool profiled = argc == 2 && std::string(argv[1]) == "one";
  Pools pools(profiled ? size_t{1} << 30 : size_t{10} << 30, profiled ? 0 : size_t{1} << 30, kPositions);
  PrintDevice();
  for (int i = 1; i < argc; ++i) {
    const std::string mode = argv[i];
    if (mode == "inject") RunInject(pools);
    if (mode == "extract") RunExtract(pools);
    if (mode == "sweep") RunSweep(pools);
    if (mode == "one") RunOne(pools);
  }
  return 0;
}
