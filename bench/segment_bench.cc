// KV records in a segment store beside the same bytes in plain files, in one run.
//   build-bench/bench/segment_bench --benchmark_enable_random_interleaving=true --benchmark_repetitions=5
// In INFERSCALE_BENCH_FOLDER, or the current folder. Reads are of 50 records of 700 KB (35 MB), a recall's, at random
// out of 700 MB, a working set that no processor cache holds; "cold" ones drop the page cache's copies before, not
// timed.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "store/segment_store.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

constexpr size_t kRecordBytes = 700'000;  // 30 tokens of SmolLM2-135M
constexpr size_t kRecords = 1000;
constexpr size_t kBatch = 50;
constexpr size_t kWriteBatch = 20;  // a fact run, with one sync

void Must(bool condition) {
  if (!condition) std::abort();
}

fs::path Folder() {
  const char* const given = std::getenv("INFERSCALE_BENCH_FOLDER");
  return fs::path(given != nullptr ? given : ".") / ("segment_bench." + std::to_string(::getpid()));
}

std::string Content(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::string bytes(kRecordBytes, '\0');
  for (size_t i = 0; i + 8 <= bytes.size(); i += 8) *reinterpret_cast<uint64_t*>(bytes.data() + i) = random();
  return bytes;
}

// Made once: a store, and one plain file with the same records one after another.
struct Data {
  Data() : folder(Folder()) {
    store = *SegmentStore::Open({.folder = folder / "kv"});
    plain = ::open((folder / "plain").c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    Must(plain >= 0);
    for (size_t i = 0; i < kRecords; ++i) {
      const std::string bytes = Content(i);
      records.push_back({i + 1, *store->Append(i + 1, bytes)});
      Must(::pwrite(plain, bytes.data(), bytes.size(), static_cast<off_t>(i * kRecordBytes)) ==
           static_cast<ssize_t>(bytes.size()));
    }
    Must(store->Sync().has_value() && ::fsync(plain) == 0);
    without_ring = *SegmentStore::Open({.folder = folder / "kv", .io_uring = false});
  }
  ~Data() {
    store.reset();
    without_ring.reset();
    ::close(plain);
    fs::remove_all(folder);
  }
  void DropCaches() const {
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      const int fd = ::open(entry.path().c_str(), O_RDONLY);
      ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      ::close(fd);
    }
  }

  const fs::path folder;
  std::unique_ptr<SegmentStore> store, without_ring;
  int plain = -1;
  std::vector<StoredRecord> records;
};

Data& TheData() {
  static Data data;
  return data;
}

std::vector<size_t> Pick(std::mt19937& random) {
  std::vector<size_t> chosen(kBatch);
  for (size_t& i : chosen) i = random() % kRecords;
  return chosen;
}

void SetBytes(benchmark::State& state, size_t records) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * records * kRecordBytes));
}

void ReadStore(benchmark::State& state, SegmentStore& store, bool cold) {
  std::mt19937 random(1);
  for (auto _ : state) {
    if (cold) {
      state.PauseTiming();
      TheData().DropCaches();
      state.ResumeTiming();
    }
    std::vector<ReadRequest> requests;
    for (const size_t i : Pick(random))
      requests.push_back({TheData().records[i].record, TheData().records[i].location, {}});
    const auto results = store.ReadBatch(requests);
    for (const auto& result : results) Must(result.has_value());
    benchmark::DoNotOptimize(results.data());
  }
  SetBytes(state, kBatch);
}

void BM_ReadIoUring(benchmark::State& state) { ReadStore(state, *TheData().store, state.range(0) != 0); }
void BM_ReadThreads(benchmark::State& state) { ReadStore(state, *TheData().without_ring, state.range(0) != 0); }

// pread into buffers that are kept, one thread, nothing checked.
void BM_ReadPlainFile(benchmark::State& state) {
  std::mt19937 random(1);
  std::vector<std::string> into(kBatch, std::string(kRecordBytes, '\0'));
  for (auto _ : state) {
    if (state.range(0) != 0) {
      state.PauseTiming();
      TheData().DropCaches();
      state.ResumeTiming();
    }
    size_t n = 0;
    for (const size_t i : Pick(random))
      Must(::pread(TheData().plain, into[n++].data(), kRecordBytes, static_cast<off_t>(i * kRecordBytes)) ==
           static_cast<ssize_t>(kRecordBytes));
    benchmark::DoNotOptimize(into.data());
  }
  SetBytes(state, kBatch);
}

void BM_WriteStore(benchmark::State& state) {
  const std::string bytes = Content(1);
  const fs::path folder = Folder() / "write";
  auto store = *SegmentStore::Open({.folder = folder, .budget_bytes = uint64_t{1} << 40});
  uint64_t record = 1;
  std::vector<StoredRecord> written;
  for (auto _ : state) {
    for (size_t i = 0; i < kWriteBatch; ++i, ++record) written.push_back({record, *store->Append(record, bytes)});
    Must(store->Sync().has_value());
    state.PauseTiming();
    if (written.size() >= kRecords) {
      Must(store->Destroy(written).has_value());
      written.clear();
    }
    state.ResumeTiming();
  }
  SetBytes(state, kWriteBatch);
  store.reset();
  fs::remove_all(folder);
}

void BM_WritePlainFile(benchmark::State& state) {
  const std::string bytes = Content(1);
  fs::create_directories(Folder());
  const fs::path path = Folder() / "plain_write";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
  Must(fd >= 0);
  size_t at = 0;
  for (auto _ : state) {
    for (size_t i = 0; i < kWriteBatch; ++i, at += bytes.size())
      Must(::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(at)) == static_cast<ssize_t>(bytes.size()));
    Must(::fdatasync(fd) == 0);
    state.PauseTiming();
    if (at >= kRecords * kRecordBytes) {
      Must(::ftruncate(fd, 0) == 0);
      at = 0;
    }
    state.ResumeTiming();
  }
  SetBytes(state, kWriteBatch);
  ::close(fd);
  fs::remove(path);
}

// Two synced steps for all of a batch.
void BM_Destroy(benchmark::State& state) {
  const std::string bytes = Content(1);
  const fs::path folder = Folder() / "destroy";
  auto store = *SegmentStore::Open({.folder = folder});
  uint64_t record = 1;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<StoredRecord> doomed;
    for (int64_t i = 0; i < state.range(0); ++i, ++record) doomed.push_back({record, *store->Append(record, bytes)});
    Must(store->Sync().has_value());
    state.ResumeTiming();
    Must(store->Destroy(doomed).has_value());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
  store.reset();
  fs::remove_all(folder);
}

BENCHMARK(BM_ReadIoUring)->ArgName("cold")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadThreads)->ArgName("cold")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadPlainFile)->ArgName("cold")->Arg(0)->Arg(1)->UseRealTime()->Unit(benchmark::kMillisecond);
BENCHMARK(BM_WriteStore)->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.3);
BENCHMARK(BM_WritePlainFile)->UseRealTime()->Unit(benchmark::kMillisecond)->MinTime(0.3);
BENCHMARK(BM_Destroy)
    ->ArgName("records")
    ->Arg(1)
    ->Arg(50)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(10);

}  // namespace
}  // namespace inferscale

BENCHMARK_MAIN();
