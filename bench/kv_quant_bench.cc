// Records between f16 and int8 or int4 beside copying the f16 bytes, in the same process, one thread.
//   build-bench/bench/kv_quant_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
// Bytes are those of the f16 payload, for all of them: so rates compare as times do. The shape is SmolLM2-135M's (30
// layers, 3 heads of 64), 27 tokens a record (622 KB); 512 MiB of records take turns.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cpu/kv_quant.h"

namespace inferscale::kernels {
namespace {

constexpr PayloadShape kShape = {.heads = 3, .layers = 30, .key_dim = 64, .value_dim = 64};
constexpr uint32_t kTokens = 27;
constexpr size_t kWorkingSetBytes = size_t{256} << 20;  // of records, and of targets

struct Workload {
  explicit Workload(PayloadEncoding encoding) : layout{kShape, kTokens, encoding} {
    const PayloadLayout exact = {kShape, kTokens, PayloadEncoding::kF16};
    bytes = exact.Bytes();
    copies = kWorkingSetBytes / bytes;
    elements.resize(copies * bytes / sizeof(uint16_t));
    // 1 to 2, and their negatives: neither NaN nor subnormal, all quanta in use.
    for (size_t i = 0; i < elements.size(); ++i)
      elements[i] = static_cast<uint16_t>(0x3C00 | (i * 40503u >> 3 & 0x83FF));
    const uint16_t scale = encoding == PayloadEncoding::kInt4 ? 0x3444 : 0x2404;  // 4 / 15 and 4 / 255
    channels.assign(size_t{kShape.layers} * kShape.heads * kShape.key_dim, {scale, 0xC000});
    payloads.resize(copies * layout.Bytes());
    for (size_t i = 0; i < copies; ++i) QuantisePayload(Elements(i), layout, channels.data(), Payload(i));
  }
  uint16_t* Elements(size_t i) { return elements.data() + i % copies * (bytes / sizeof(uint16_t)); }
  uint8_t* Payload(size_t i) { return payloads.data() + i % copies * layout.Bytes(); }

  PayloadLayout layout;
  size_t bytes = 0, copies = 0;  // f16, of one record
  std::vector<uint16_t> elements;
  std::vector<KeyQuant> channels;  // [layers][heads][key_dim]
  std::vector<uint8_t> payloads;
};

template <class Body>
void Run(benchmark::State& state, PayloadEncoding encoding, Body body) {
  Workload work(encoding);
  size_t i = 0;
  for (auto _ : state) {
    body(work, i++);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(work.bytes));
}

void BM_Copy(benchmark::State& state) {
  std::vector<uint8_t> to(kWorkingSetBytes);
  Run(state, PayloadEncoding::kInt8, [&](Workload& work, size_t i) {
    std::memcpy(to.data() + i % work.copies * work.bytes, work.Elements(i), work.bytes);
  });
}
template <PayloadEncoding kEncoding>
void BM_Quantise(benchmark::State& state) {
  Run(state, kEncoding, [](Workload& work, size_t i) {
    benchmark::DoNotOptimize(
        QuantisePayload(work.Elements(i), work.layout, work.channels.data(), work.Payload(i)).clipped);
  });
}
template <PayloadEncoding kEncoding>
void BM_Dequantise(benchmark::State& state) {
  Run(state, kEncoding, [](Workload& work, size_t i) {
    DequantisePayload(work.Payload(i), work.layout, work.channels.data(), work.Elements(i));
  });
}

BENCHMARK(BM_Copy)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Quantise<PayloadEncoding::kInt8>)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Dequantise<PayloadEncoding::kInt8>)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Quantise<PayloadEncoding::kInt4>)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Dequantise<PayloadEncoding::kInt4>)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace inferscale::kernels

BENCHMARK_MAIN();
