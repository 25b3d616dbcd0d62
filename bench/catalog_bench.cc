// The catalog: additions, scans with vectors, postings, opening.
//   build-bench/bench/catalog_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
// In INFERSCALE_BENCH_FOLDER, or the current folder: additions are synced, so the disk decides them. Facts have 12
// words of a vocabulary in which a few words are in most texts, and vectors of 384 elements.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "catalog/sqlite_catalog.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kDims = 384;
constexpr int kWords = 12;
constexpr size_t kBatch = 1000;  // of the facts that are there before

void Must(bool condition) {
  if (!condition) std::abort();
}

// Word w comes about 1 / w as often as word 1.
std::string AnyWord(std::mt19937_64& random) {
  const double u = static_cast<double>(random() >> 11) * 0x1p-53;
  return "word" + std::to_string(static_cast<int>(std::pow(20'000.0, u)));
}

NewFact AnyFact(std::mt19937_64& random) {
  NewFact fact;
  std::map<std::string, uint32_t> terms;
  for (int i = 0; i < kWords; ++i) {
    const std::string word = AnyWord(random);
    fact.content.text += word + " ";
    ++terms[word];
  }
  fact.content.text += std::to_string(random());  // no two are alike
  fact.content.search.words = kWords;
  for (const auto& [term, count] : terms) fact.content.search.terms.push_back({term, count});
  fact.content.search.vector.resize(kDims);
  for (float& element : fact.content.search.vector) element = static_cast<float>(random() % 1000) / 1000.0f;
  return fact;
}

std::vector<NewFact> AnyFacts(size_t count, std::mt19937_64& random) {
  std::vector<NewFact> facts;
  for (size_t i = 0; i < count; ++i) facts.push_back(AnyFact(random));
  return facts;
}

struct Folder {
  Folder() {
    static int number = 0;
    const char* const given = std::getenv("INFERSCALE_BENCH_FOLDER");
    path = fs::path(given != nullptr ? given : ".") /
           ("catalog_bench." + std::to_string(::getpid()) + "." + std::to_string(number++));
    fs::create_directories(path);
  }
  ~Folder() { fs::remove_all(path); }
  fs::path path;
};

// A catalog with this many facts in one namespace; made once.
struct Filled {
  explicit Filled(size_t facts) : catalog(OpenSqliteCatalog(folder.path).value()) {
    Must(catalog->UseEmbedder({"bench", {1, 2}, kDims}).has_value());
    ns = catalog->OpenNamespace("bench").value();
    for (size_t done = 0; done < facts; done += kBatch)
      Must(catalog->AddFacts(ns, AnyFacts(std::min(kBatch, facts - done), random), {}).has_value());
    Must(catalog->Scrub().has_value());
  }
  std::mt19937_64 random{1};
  Folder folder;
  std::unique_ptr<Catalog> catalog;
  NamespaceId ns = 0;
};

Filled& FilledWith(int64_t facts) {
  static std::map<int64_t, std::unique_ptr<Filled>> all;
  auto& filled = all[facts];
  if (filled == nullptr) filled = std::make_unique<Filled>(static_cast<size_t>(facts));
  return *filled;
}

// To a namespace that has 1,000 facts and grows.
void Add(benchmark::State& state) {
  Filled filled(kBatch);
  const auto batch = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    state.PauseTiming();
    const std::vector<NewFact> facts = AnyFacts(batch, filled.random);
    state.ResumeTiming();
    Must(filled.catalog->AddFacts(filled.ns, facts, {}).has_value());
  }
  state.SetItemsProcessed(static_cast<int64_t>(batch) * state.iterations());
}
BENCHMARK(Add)->Arg(1)->Arg(256)->Unit(benchmark::kMillisecond)->UseRealTime();

void ScanWithVectors(benchmark::State& state) {
  Filled& filled = FilledWith(state.range(0));
  for (auto _ : state) {
    float sum = 0;
    const auto scanned = filled.catalog->ScanFacts(filled.ns, {.with_vector = true}, [&](const ScanRow& row) {
      sum += row.vector[0];
      return true;
    });
    Must(scanned && scanned->rows == static_cast<uint64_t>(state.range(0)));
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(state.range(0) * state.iterations());
}
BENCHMARK(ScanWithVectors)->Arg(1000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();

// One word that 1 in 100 facts has, and eight of a question.
void PostingsOfTerms(benchmark::State& state) {
  Filled& filled = FilledWith(state.range(0));
  std::vector<std::string> terms;
  for (int64_t i = 0; i < state.range(1); ++i) terms.push_back("word" + std::to_string(100 + 37 * i));
  size_t postings = 0;
  for (auto _ : state) {
    const auto found = filled.catalog->Postings(filled.ns, terms, 1'000'000);
    Must(found.has_value());
    postings = 0;
    for (const TermPostings& term : *found) postings += term.postings.size();
  }
  state.counters["postings"] = static_cast<double>(postings);
}
BENCHMARK(PostingsOfTerms)
    ->ArgsProduct({{1000, 10'000, 100'000}, {1, 8}})
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

void GetFifty(benchmark::State& state) {
  Filled& filled = FilledWith(state.range(0));
  std::vector<FactSeq> seqs(50);
  for (auto _ : state) {
    for (FactSeq& seq : seqs) seq = 1 + filled.random() % static_cast<uint64_t>(state.range(0));
    Must(filled.catalog->GetFacts(filled.ns, seqs)->size() == seqs.size());
  }
}
BENCHMARK(GetFifty)->Arg(100'000)->Unit(benchmark::kMicrosecond)->UseRealTime();

void Open(benchmark::State& state) {
  Filled& filled = FilledWith(state.range(0));
  filled.catalog.reset();
  for (auto _ : state) {
    filled.catalog = OpenSqliteCatalog(filled.folder.path).value();
    state.PauseTiming();
    filled.catalog.reset();
    state.ResumeTiming();
  }
  filled.catalog = OpenSqliteCatalog(filled.folder.path).value();
  state.counters["bytes_per_fact"] =
      static_cast<double>(fs::file_size(filled.folder.path / "catalog.db")) / static_cast<double>(state.range(0));
}
BENCHMARK(Open)->Arg(1000)->Arg(100'000)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace inferscale

BENCHMARK_MAIN();
