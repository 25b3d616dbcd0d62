// Exact search beside FAISS's flat index, one query and one thread each, in the same process.
//   build/bench/search_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <faiss/IndexFlat.h>
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "index/exact_index.h"

namespace inferscale {
namespace {

constexpr uint32_t kDim = 384;  // all-MiniLM-L6-v2
constexpr size_t kTopK = 50;
constexpr size_t kQueries = 64;

std::vector<float> UnitVectors(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> out(count * kDim);
  for (size_t i = 0; i < count; ++i) {
    float* row = out.data() + i * kDim;
    double squared = 0.0;
    for (uint32_t d = 0; d < kDim; ++d) {
      row[d] = normal(random);
      squared += double{row[d]} * row[d];
    }
    for (uint32_t d = 0; d < kDim; ++d) row[d] /= static_cast<float>(std::sqrt(squared));
  }
  return out;
}

// Both indexes over the same vectors, built once per size.
struct Data {
  explicit Data(size_t count) : queries(UnitVectors(kQueries, 2)), ours(kDim), faiss(kDim) {
    const std::vector<float> vectors = UnitVectors(count, 1);
    for (size_t i = 0; i < count; ++i) {
      if (!ours.Add({vectors.data() + i * kDim, kDim})) std::abort();
    }
    faiss.add(static_cast<faiss::Index::idx_t>(count), vectors.data());
  }
  std::span<const float> Query(size_t i) const { return {queries.data() + (i % kQueries) * kDim, kDim}; }

  std::vector<float> queries;
  ExactIndex ours;
  ::faiss::IndexFlatIP faiss;
};

const Data& DataOf(size_t count) {
  static std::map<size_t, std::unique_ptr<Data>> all;
  std::unique_ptr<Data>& data = all[count];
  if (!data) data = std::make_unique<Data>(count);
  return *data;
}

void SetVectors(benchmark::State& state, size_t count) {
  state.counters["vectors/s"] =
      benchmark::Counter(static_cast<double>(count), benchmark::Counter::kIsIterationInvariantRate);
}

void BM_SearchOurs(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const Data& data = DataOf(count);
  size_t i = 0;
  for (auto _ : state) {
    auto hits = data.ours.Search(data.Query(i++), kTopK);
    benchmark::DoNotOptimize(hits);
  }
  SetVectors(state, count);
}

void BM_SearchFaiss(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const Data& data = DataOf(count);
  std::vector<float> scores(kTopK);
  std::vector<::faiss::Index::idx_t> rows(kTopK);
  size_t i = 0;
  for (auto _ : state) {
    data.faiss.search(1, data.Query(i++).data(), kTopK, scores.data(), rows.data());
    benchmark::DoNotOptimize(rows.data());
    benchmark::ClobberMemory();
  }
  SetVectors(state, count);
}

BENCHMARK(BM_SearchOurs)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SearchFaiss)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

// A benchmark of two indexes that disagree would prove nothing.
bool SameResults() {
  const Data& data = DataOf(10'000);
  std::vector<float> scores(kTopK);
  std::vector<::faiss::Index::idx_t> rows(kTopK);
  for (size_t q = 0; q < kQueries; ++q) {
    const auto hits = data.ours.Search(data.Query(q), kTopK);
    data.faiss.search(1, data.Query(q).data(), kTopK, scores.data(), rows.data());
    if (!hits || hits->size() != kTopK) return false;
    for (size_t i = 0; i < kTopK; ++i) {
      if (std::abs((*hits)[i].score - scores[i]) > 1e-5f) return false;
    }
  }
  return true;
}

}  // namespace
}  // namespace inferscale

int main(int argc, char** argv) {
  omp_set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!inferscale::SameResults()) {
    std::fprintf(stderr, "the two indexes do not return the same scores\n");
    return 1;
  }
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
