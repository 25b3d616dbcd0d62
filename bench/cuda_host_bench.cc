// Records from pinned host memory to an engine's cache: through the arena (copy engine, then inject) and read by the
// inject kernel itself. Ratios are to one copy of 1 GiB over the link in the same run. Llama-3.1-8B's shape, facts of
// 27 tokens in random places of 2 GiB.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <random>
#include <vector>

#include "bench/cuda_bench_util.h"
#include "kernels/cuda/kv_transfer.h"
#include "kernels/kv_plan_builder.h"
#include "store/cuda/device_arena_memory.h"
#include "store/kv_arena.h"

namespace inferscale {
namespace {

using kernels::Cuda;
using kernels::Median;
using kernels::PayloadEncoding;
using kernels::RecordStamp;

constexpr size_t kHostBytes = size_t{2} << 30;
constexpr uint32_t kLayers = 32, kHeads = 8, kDim = 128, kTokens = 27, kBlock = 16, kPositions = 2048;
constexpr uint32_t kRow = 2 * kDim * 2;  // K and V of a head, bf16

struct Host {
  Host() {
    Cuda(cudaHostAlloc(reinterpret_cast<void**>(&data), kHostBytes, cudaHostAllocMapped));
    auto* words = reinterpret_cast<uint64_t*>(data);
    for (size_t i = 0; i < kHostBytes / 8; ++i)
      words[i] = (i * 0x9E3779B97F4A7C15ull & 0x8FFF8FFF8FFF8FFFull) | 0x30003000;
  }
  ~Host() { cudaFreeHost(data); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;
  uint8_t* data = nullptr;
};

double Now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Median of microseconds; prepare is not timed.
template <class Prepare, class Work>
double TimeHost(Prepare prepare, Work work) {
  std::vector<float> times;
  for (int i = 0; i < 17; ++i) {
    prepare();
    Cuda(cudaDeviceSynchronize());
    const double start = Now();
    work();
    if (i >= 2) times.push_back(static_cast<float>(Now() - start));
  }
  return Median(times);
}

// What a request has: records, a cache, and a plan of the records where they are.
class Tier {
 public:
  Tier(Host& host, PayloadEncoding encoding, uint32_t count)
      : encoding_(encoding),
        count_(count),
        bytes_(kernels::PayloadLayout{kShape, kTokens, encoding}.Bytes()),
        cache_(size_t{kLayers} * Blocks() * kBlock * kHeads * kRow),
        table_(std::vector<uint8_t>(size_t{kPositions} * kDim * 4, 0x3c)),
        calibration_(std::vector<uint8_t>(size_t{kLayers} * kHeads * kDim * 4, 0x2c)),
        plan_(size_t{1} << 20) {
    Cuda(cudaStreamCreateWithFlags(&compute_, cudaStreamNonBlocking));
    Cuda(cudaHostAlloc(reinterpret_cast<void**>(&host_plan_), size_t{1} << 20, cudaHostAllocMapped));
    arena_ = std::make_unique<KvArena>(*MakeDeviceArenaMemory(size_t{1} << 30, compute_));
    const uint64_t pitch = (kernels::kStampBytes + bytes_ + 4095) / 4096 * 4096;
    for (uint64_t at = 0, i = 0; at + pitch <= kHostBytes; at += pitch, ++i) {
      auto* stamp = reinterpret_cast<RecordStamp*>(host.data + at);
      *stamp = {{i + 1, i + 1}, 1, i + 1};
      all_.push_back({*stamp, host.data + at + kernels::kStampBytes, bytes_, stamp});
    }
  }
  ~Tier() {
    arena_.reset();
    cudaStreamDestroy(compute_);
    cudaFreeHost(host_plan_);
  }
  Tier(const Tier&) = delete;
  Tier& operator=(const Tier&) = delete;

  void ForgetAndChoose() {
    kernels::Check(arena_->Clear().has_value() && arena_->Finish().has_value(), "clear");
    chosen_.clear();
    for (uint32_t i = 0; i < count_; ++i) {
      std::swap(all_[i], all_[i + random_() % (all_.size() - i)]);
      chosen_.push_back(all_[i]);
    }
  }
  ArenaLease Acquire() {
    Result<ArenaLease> lease = arena_->Acquire(chosen_);
    kernels::Check(lease.has_value() && arena_->stats().refused == 0, "acquire");
    return std::move(*lease);
  }
  // From the lease's slots, or, without one, from host memory: without its stamps, which a few hundred thread blocks
  // would read over the link.
  void Inject(const ArenaLease* lease) {
    std::vector<kernels::KvSource> sources;
    for (uint32_t i = 0; i < count_; ++i) {
      sources.push_back({.payload = lease ? lease->slots()[i].payload : const_cast<uint8_t*>(chosen_[i].payload),
                         .payload_bytes = bytes_,
                         .stamp = lease ? lease->slots()[i].stamp : nullptr,
                         .expected = chosen_[i].stamp,
                         .calibration = reinterpret_cast<const kernels::KeyQuant*>(calibration_.data()),
                         .tokens = kTokens,
                         .encoding = encoding_});
    }
    const kernels::KvPlan plan = Plan(sources);
    Cuda(cudaMemcpyAsync(plan_.data(), host_plan_, plan.bytes(), cudaMemcpyHostToDevice, compute_));
    Cuda(static_cast<cudaError_t>(kernels::InjectCuda(plan.View(plan_.data()), compute_)));
  }
  void Wait() { Cuda(cudaStreamSynchronize(compute_)); }
  double bytes() const { return static_cast<double>(bytes_) * count_; }
  cudaStream_t compute() const { return compute_; }
  KvArena& arena() { return *arena_; }
  std::span<const ArenaRecord> chosen() const { return chosen_; }

 private:
  static constexpr kernels::PayloadShape kShape{kHeads, kLayers, kDim, kDim};
  uint32_t Blocks() const { return (count_ * kTokens + kBlock - 1) / kBlock; }

  kernels::KvPlan Plan(const std::vector<kernels::KvSource>& sources) {
    const kernels::RopeRows rope{
        table_.data(), kDim * 4, kPositions, kDim, kernels::TableType::kF32, kernels::Pairing::kNeoxHalves};
    std::vector<kernels::CacheLayer> layers;
    for (uint32_t l = 0; l < kLayers; ++l) {
      layers.push_back({.base = cache_.data() + size_t{l} * Blocks() * kBlock * kHeads * kRow,
                        .block_stride = kBlock * kHeads * kRow,
                        .head_stride = kRow,
                        .token_stride = kHeads * kRow,
                        .value_offset = kRow / 2,
                        .record_layer = l,
                        .rope = 0,
                        .block_size = kBlock,
                        .block_count = Blocks()});
    }
    std::vector<kernels::KvSpan> spans;
    for (uint32_t i = 0; i < count_; ++i) spans.push_back({i, 0, kTokens, i * kTokens});
    std::vector<int32_t> blocks(Blocks());
    for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
    const std::span<const int32_t> table = blocks;
    const kernels::KvRequest request{spans, {&table, 1}};
    const kernels::KvBatch batch{kShape, sources, {&request, 1}, layers, {&rope, 1}};
    Result<kernels::KvPlan> plan =
        kernels::BuildKvPlan(batch, kernels::KvDirection::kInject, {host_plan_, size_t{1} << 20});
    kernels::Check(plan.has_value(), plan ? "" : plan.error().message.c_str());
    return *plan;
  }

  const PayloadEncoding encoding_;
  const uint32_t count_;
  const uint64_t bytes_;
  kernels::DeviceBuffer cache_, table_, calibration_, plan_;
  cudaStream_t compute_ = nullptr;
  uint8_t* host_plan_ = nullptr;
  std::unique_ptr<KvArena> arena_;
  std::vector<ArenaRecord> all_, chosen_;
  std::mt19937 random_{5};
};

void RunTier(Host& host, PayloadEncoding encoding, uint32_t count, double link) {
  Tier tier(host, encoding, count);
  const auto choose = [&] { tier.ForgetAndChoose(); };
  const double load = TimeHost(choose, [&] {
    const ArenaLease lease = tier.Acquire();
    tier.Wait();
  });
  const double both = TimeHost(choose, [&] {
    const ArenaLease lease = tier.Acquire();
    tier.Inject(&lease);
    tier.Wait();
  });
  const double resident = TimeHost([&] { tier.Acquire(); },
                                   [&] {
                                     const ArenaLease lease = tier.Acquire();
                                     tier.Inject(&lease);
                                     tier.Wait();
                                   });
  const double direct = TimeHost(choose, [&] {
    tier.Inject(nullptr);
    tier.Wait();
  });
  std::printf("%-5s %4u %8.1f | %8.1f us %6.1f GB/s %.3f | %8.1f us | %8.1f us | %8.1f us\n",
              encoding == PayloadEncoding::kBf16 ? "bf16" : "int8", count, tier.bytes() / 1e6, load,
              tier.bytes() / load / 1e3, tier.bytes() / load / link, both, direct, resident);
}

// Copies into the arena beside work of the compute stream (copies within the device, which take memory's bandwidth).
void RunOverlap(Host& host) {
  Tier tier(host, PayloadEncoding::kInt8, 50);
  const size_t bytes = size_t{1} << 30;
  kernels::DeviceBuffer from(bytes), to(bytes);
  const auto compute = [&] {
    for (int i = 0; i < 4; ++i) {
      Cuda(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, tier.compute()));
    }
  };
  const auto choose = [&] { tier.ForgetAndChoose(); };
  const auto prefetch = [&] { kernels::Check(tier.arena().Prefetch(tier.chosen()).has_value(), "prefetch"); };
  const double work = TimeHost(choose, [&] {
    compute();
    tier.Wait();
  });
  const double load = TimeHost(choose, [&] {
    prefetch();
    tier.Wait();
  });
  const double together = TimeHost(choose, [&] {
    compute();
    prefetch();
    tier.Wait();
  });
  std::printf("overlap: compute %.0f us, loading %.0f us, both %.0f us: %.0f %% of the shorter is hidden\n", work, load,
              together, 100 * (work + load - together) / std::min(work, load));
}

void Run() {
  kernels::PrintDevice();
  Host host;
  kernels::DeviceBuffer device(size_t{1} << 30);
  const double link_us =
      TimeHost([] {},
               [&] {
                 Cuda(cudaMemcpyAsync(device.data(), host.data, size_t{1} << 30, cudaMemcpyHostToDevice, nullptr));
                 Cuda(cudaDeviceSynchronize());
               });
  const double link = (size_t{1} << 30) / link_us;
  std::printf("link: %.1f GB/s (1 GiB in one copy)\n", link / 1e3);
  std::printf("        k       MB | load into arena, ratio            | load + inject | inject from host | resident\n");
  for (const PayloadEncoding encoding : {PayloadEncoding::kBf16, PayloadEncoding::kInt8}) {
    for (const uint32_t count : {1u, 5u, 20u, 50u}) RunTier(host, encoding, count, link);
  }
  RunOverlap(host);
}

}  // namespace
}  // namespace inferscale

int main() {
  inferscale::Run();
  return 0;
}
