// Exact search beside FAISS's flat index, one query and one thread each, in the same process; then what recall does
// beside it: filtered and fused search, removal, keyword search, words, filters.
//   build-bench/bench/search_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
#include <benchmark/benchmark.h>
#include <faiss/IndexFlat.h>
#include <omp.h>

#include <cmath>
#include <cstdio>
#include <map>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "index/exact_index.h"
#include "index/filter.h"
#include "index/fusion.h"
#include "index/words.h"

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

// range(1): of a thousand rows, how many are allowed.
void BM_SearchFiltered(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const Data& data = DataOf(count);
  std::mt19937 random(3);
  RowMask allowed(count, false);
  for (size_t row = 0; row < count; ++row) allowed.Set(row, static_cast<int64_t>(random() % 1000) < state.range(1));
  size_t i = 0;
  for (auto _ : state) {
    auto hits = data.ours.Search(data.Query(i++), kTopK, SIZE_MAX, &allowed);
    benchmark::DoNotOptimize(hits);
  }
  SetVectors(state, count);
}

// range(1): of a thousand rows, how many have a keyword match.
void BM_SearchFused(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const Data& data = DataOf(count);
  std::mt19937 random(4);
  std::vector<KeywordRow> keywords;
  for (uint32_t row = 0; row < count; ++row)
    if (static_cast<int64_t>(random() % 1000) < state.range(1))
      keywords.push_back({row, 1.0f, static_cast<float>(random() % 100) / 100.0f});
  size_t i = 0;
  for (auto _ : state) {
    auto hits = SearchFused(data.ours, data.Query(i++), keywords, nullptr, kTopK);
    benchmark::DoNotOptimize(hits);
  }
  SetVectors(state, count);
}

ExactIndex Filled(size_t count) {
  const std::vector<float> vectors = UnitVectors(count, 5);
  ExactIndex index(kDim);
  for (size_t i = 0; i < count; ++i)
    if (!index.Add({vectors.data() + i * kDim, kDim})) std::abort();
  return index;
}

void BM_Add(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  const std::vector<float> vectors = UnitVectors(count, 5);
  for (auto _ : state) {
    ExactIndex index(kDim);
    for (size_t i = 0; i < count; ++i) benchmark::DoNotOptimize(index.Add({vectors.data() + i * kDim, kDim}));
  }
  SetVectors(state, count);
}

// Every second row, and the compaction that pays for it.
void BM_RemoveHalf(benchmark::State& state) {
  const auto count = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    ExactIndex index = Filled(count);
    state.ResumeTiming();
    for (size_t row = 0; row < count; row += 2) index.Remove(row);
    benchmark::DoNotOptimize(index.Compact());
    state.PauseTiming();
    index = ExactIndex(kDim);
    state.ResumeTiming();
  }
  SetVectors(state, count / 2);
}

constexpr std::string_view kFact =
    "(8 May 2023) Caroline attended a support group last Tuesday, and measured 84.2 ms on the new machine in Zürich.";

void BM_SplitWords(benchmark::State& state) {
  for (auto _ : state) benchmark::DoNotOptimize(SplitWords(kFact));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * kFact.size()));
}

void BM_Filter(benchmark::State& state) {
  // range(0): without and with a condition on the metadata, which is then parsed for each fact.
  const auto filter =
      Filter::Parse(state.range(0) == 0 ? R"({"agent_id": {"ne": "bot"}, "created_at": {"gte": "2024-03-01"}})"
                                        : R"({"agent_id": {"ne": "bot"}, "topic": {"in": ["food", "travel"]}})");
  FilterFact fact;
  fact.text = kFact;
  fact.user_id = "caroline";
  fact.created_us = 1'709'251'200'000'000;
  fact.metadata = R"({"topic": "travel", "score": 3, "tags": ["a", "b"], "source": "chat"})";
  for (auto _ : state) benchmark::DoNotOptimize(filter->Matches(fact));
}

BENCHMARK(BM_SearchOurs)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SearchFaiss)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMicrosecond);

BENCHMARK(BM_SearchFiltered)->ArgsProduct({{10'000, 100'000}, {5, 100, 900}})->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_SearchFused)->ArgsProduct({{1'000, 10'000, 100'000}, {10, 250}})->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_Add)->Arg(100)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_RemoveHalf)->Arg(1'000)->Arg(100'000)->Unit(benchmark::kMillisecond)->Iterations(5);
BENCHMARK(BM_SplitWords);
BENCHMARK(BM_Filter)->Arg(0)->Arg(1);

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
