// Composing a prompt's KV beside copying the same bytes, in the same process.
//   build-bench/bench/kernels_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
// Bytes are those read and written: twice the keys or values. The shapes are SmolLM2-135M's (30 layers, 3 heads of 64)
// with facts of 27 tokens; records and targets take turns from sets larger than any last-level cache here.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "kernels/cpu/rotate.h"
#include "kernels/cpu/transpose.h"

namespace inferscale::kernels {
namespace {

constexpr size_t kLayers = 30;
constexpr size_t kHeads = 3;
constexpr size_t kDim = 64;
constexpr size_t kRecordTokens = 27;
constexpr size_t kWorkingSetBytes = size_t{256} << 20;  // of records, and of targets

// One head's keys and values of one layer of one record, and where they go.
struct Piece {
  const uint16_t* keys;    // [tokens][kDim]
  const uint16_t* values;  // [tokens][kDim]
  uint16_t* key_rows;      // [tokens][kHeads * kDim], at the head's column
  uint16_t* value_rows;    // [kDim][all tokens], at the first token's column
  const float* table;      // [tokens][kDim]
  size_t tokens;
};

// Records as the store holds them, [head][layer][K then V][token][dim], and an engine's cache as its blob holds it:
// K [layer][token][head][dim], V [layer][head][dim][token].
struct Workload {
  explicit Workload(size_t all_tokens)
      : tokens(all_tokens), copies(kWorkingSetBytes / (2 * Elements() * sizeof(uint16_t)) + 1) {
    records.assign(copies * 2 * Elements(), 0x3C00);  // ones: neither NaN nor subnormal
    cache.assign(copies * 2 * Elements(), 0);
    for (size_t p = 0; p < tokens; ++p) {
      for (size_t i = 0; i < kDim; ++i) {
        const double angle = static_cast<double>(p) * std::pow(10000.0, -2.0 * static_cast<double>(i % 32) / kDim);
        table.push_back(static_cast<float>(i < 32 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }

  size_t Elements() const { return kLayers * kHeads * tokens * kDim; }  // of K, and of V
  const uint16_t* RecordsOf(size_t copy) const { return records.data() + (copy % copies) * 2 * Elements(); }
  uint16_t* CacheOf(size_t copy) { return cache.data() + (copy % copies) * 2 * Elements(); }

  // In the engine's order: layer by layer, so that the rows that one layer's values go to stay in the cache.
  template <class Body>
  void ForEachPiece(size_t copy, const Body& body) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      for (size_t first = 0; first < tokens; first += kRecordTokens) {
        const size_t count = std::min(kRecordTokens, tokens - first);
        const uint16_t* payload = RecordsOf(copy) + first * kLayers * kHeads * 2 * kDim;
        for (size_t head = 0; head < kHeads; ++head) {
          const uint16_t* keys = payload + (head * kLayers + layer) * 2 * count * kDim;
          body(Piece{.keys = keys,
                     .values = keys + count * kDim,
                     .key_rows = CacheOf(copy) + ((layer * tokens + first) * kHeads + head) * kDim,
                     .value_rows = CacheOf(copy) + Elements() + (layer * kHeads + head) * kDim * tokens + first,
                     .table = table.data() + first * kDim,
                     .tokens = count});
        }
      }
    }
  }

  size_t tokens;
  size_t copies;
  std::vector<uint16_t> records, cache;
  std::vector<float> table;  // [tokens][kDim]
};

Workload& WorkloadOf(const benchmark::State& state) {
  static std::unique_ptr<Workload> current;
  const auto tokens = static_cast<size_t>(state.range(0));
  if (!current || current->tokens != tokens) current = std::make_unique<Workload>(tokens);
  return *current;
}

// halves: 1 for keys or values alone, 2 for both.
void SetBytes(benchmark::State& state, const Workload& work, size_t halves) {
  const size_t bytes = 2 * halves * work.Elements() * sizeof(uint16_t);
  state.SetBytesProcessed(static_cast<int64_t>(bytes) * state.iterations());
}

// One call of memcpy for all bytes: the machine's rate.
void CopyWhole(benchmark::State& state, size_t halves) {
  Workload& work = WorkloadOf(state);
  size_t copy = 0;
  for (auto _ : state) {
    std::memcpy(work.CacheOf(copy), work.RecordsOf(copy), halves * work.Elements() * sizeof(uint16_t));
    ++copy;
    benchmark::ClobberMemory();
  }
  SetBytes(state, work, halves);
}
void BM_CopyHalf(benchmark::State& state) { CopyWhole(state, 1); }
void BM_CopyBoth(benchmark::State& state) { CopyWhole(state, 2); }

template <class Body>
void Run(benchmark::State& state, size_t halves, const Body& body) {
  Workload& work = WorkloadOf(state);
  size_t copy = 0;
  for (auto _ : state) {
    work.ForEachPiece(copy++, body);
    benchmark::ClobberMemory();
  }
  SetBytes(state, work, halves);
}

void CopyRows(const Piece& piece) {
  for (size_t t = 0; t < piece.tokens; ++t) {
    std::memcpy(piece.key_rows + t * kHeads * kDim, piece.keys + t * kDim, kDim * sizeof(uint16_t));
  }
}

RotateArgs ArgsOf(const Piece& piece, bool interleaved) {
  return {.src = piece.keys,
          .src_stride = kDim,
          .dst = piece.key_rows,
          .dst_stride = kHeads * kDim,
          .table = piece.table,
          .table_stride = kDim,
          .tokens = piece.tokens,
          .head_dim = kDim,
          .rotary_dims = kDim,
          .interleaved = interleaved};
}

void TransposePiece(const benchmark::State& state, const Piece& piece, decltype(&TransposeU16) transpose) {
  transpose(piece.values, kDim, piece.value_rows, static_cast<size_t>(state.range(0)), piece.tokens, kDim);
}

// The same moves as the rotation makes, without arithmetic: a memcpy of one key each.
void BM_CopyKeys(benchmark::State& state) { Run(state, 1, CopyRows); }
void BM_RotateInterleaved(benchmark::State& state) {
  Run(state, 1, [](const Piece& piece) { RotateF16(ArgsOf(piece, true)); });
}
void BM_RotateNeox(benchmark::State& state) {
  Run(state, 1, [](const Piece& piece) { RotateF16(ArgsOf(piece, false)); });
}
void BM_RotateScalar(benchmark::State& state) {
  Run(state, 1, [](const Piece& piece) { RotateF16Scalar(ArgsOf(piece, true)); });
}
void BM_Transpose(benchmark::State& state) {
  Run(state, 1, [&](const Piece& piece) { TransposePiece(state, piece, TransposeU16); });
}
void BM_TransposeScalar(benchmark::State& state) {
  Run(state, 1, [&](const Piece& piece) { TransposePiece(state, piece, TransposeU16Scalar); });
}
// A whole prompt: keys rotated and values transposed piece by piece, as the embedded engine does it.
void BM_Compose(benchmark::State& state) {
  Run(state, 2, [&](const Piece& piece) {
    RotateF16(ArgsOf(piece, true));
    TransposePiece(state, piece, TransposeU16);
  });
}

// 2,048 tokens: rows of transposed V then lie 4 KiB apart, all in one set of the first-level cache.
void Prompts(benchmark::internal::Benchmark* bench) { bench->Arg(1500)->Arg(2048)->Unit(benchmark::kMillisecond); }
BENCHMARK(BM_CopyHalf)->Apply(Prompts);
BENCHMARK(BM_CopyKeys)->Apply(Prompts);
BENCHMARK(BM_RotateInterleaved)->Apply(Prompts);
BENCHMARK(BM_RotateNeox)->Apply(Prompts);
BENCHMARK(BM_RotateScalar)->Apply(Prompts);
BENCHMARK(BM_Transpose)->Apply(Prompts);
BENCHMARK(BM_TransposeScalar)->Apply(Prompts);
BENCHMARK(BM_CopyBoth)->Apply(Prompts);
BENCHMARK(BM_Compose)->Apply(Prompts);

}  // namespace
}  // namespace inferscale::kernels

BENCHMARK_MAIN();
