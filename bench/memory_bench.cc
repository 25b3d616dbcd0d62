// The durable memory: remember, recall beside one flat scan of FAISS, start-up, memory, KV records beside plain files.
//   build-bench/bench/memory_bench [facts [namespaces]]       (100000, 10000)
// In INFERSCALE_BENCH_FOLDER, or the current folder: additions are synced, so the disk decides them. Facts have 12
// words of a vocabulary in which a few words are in most texts; vectors of 384 elements are random, and the time that
// their making takes, as that of an embedder would be, is left out and reported.
#include <faiss/IndexFlat.h>
#include <fcntl.h>
#include <malloc.h>
#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "memory/memory.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kDims = 384;
constexpr size_t kBatch = 1000;      // of the facts that are there before
constexpr size_t kQuestions = 1000;  // p99: the tenth slowest
constexpr size_t kTopK = 50;
constexpr size_t kRecords = 200;
constexpr KvShape kShape{30, 3, 64, 64};  // SmolLM2-135M
constexpr size_t kTokens = 30;            // 691 KB

void Must(bool condition) {
  if (!condition) std::abort();
}

// Random directions that depend on the text alone.
class BenchEmbedder final : public Embedder {
 public:
  uint32_t dim() const override { return kDims; }
  const std::string& name() const override { return name_; }
  Hash128 key() const override { return {1, 2}; }
  size_t CountTokens(std::string_view text) const override { return text.size() / 4; }
  Result<std::vector<float>> Embed(std::span<const std::string_view> texts) override {
    const Stopwatch watch;
    std::vector<float> vectors;
    for (const std::string_view text : texts) {
      std::minstd_rand random(static_cast<uint32_t>(HashBytes(text).low));
      double squares = 0;
      for (uint32_t i = 0; i < kDims; ++i) {
        vectors.push_back(static_cast<float>(random() % 65536) - 32768.0f);
        squares += double{vectors.back()} * vectors.back();
      }
      for (size_t i = vectors.size() - kDims; i < vectors.size(); ++i)
        vectors[i] /= static_cast<float>(std::sqrt(squares));
    }
    ms += watch.Millis();
    return vectors;
  }
  std::vector<float> One(std::string_view text) { return Embed({&text, 1}).value(); }
  double ms = 0;  // that it took in all

 private:
  const std::string name_ = "bench";
};

// Word w comes about 1 / w as often as word 1.
std::string Words(std::mt19937_64& random, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    const double u = static_cast<double>(random() >> 11) * 0x1p-53;
    text += "word" + std::to_string(static_cast<int>(std::pow(20'000.0, u))) + " ";
  }
  return text;
}

std::vector<FactInput> AnyFacts(size_t count, std::mt19937_64& random) {
  std::vector<FactInput> facts(count);
  for (FactInput& fact : facts) fact.text = Words(random, 12) + std::to_string(random());  // no two are alike
  return facts;
}

struct Times {
  std::vector<double> ms;
  double At(double share) {
    std::sort(ms.begin(), ms.end());
    return ms[static_cast<size_t>(share * static_cast<double>(ms.size() - 1))];
  }
};

class Bench {
 public:
  Bench() {
    const char* const given = std::getenv("INFERSCALE_BENCH_FOLDER");
    folder_ = fs::path(given != nullptr ? given : ".") / ("memory_bench." + std::to_string(::getpid()));
    fs::create_directories(folder_);
    Open();
  }
  ~Bench() {
    memory_.reset();
    fs::remove_all(folder_);
  }
  void Open() {
    memory_.reset();
    MemoryOptions options;
    options.data_folder = folder_ / "data";
    options.kv.disk_bytes = uint64_t{4} << 30;
    options.kv.hot_bytes = 16u << 20;  // so that loads are reads
    memory_ = Memory::Open(options, &embedder_).value();
  }
  void Fill(const std::string& ns, size_t facts) {
    for (size_t done = 0; done < facts; done += kBatch)
      Must(memory_->Remember(ns, AnyFacts(std::min(kBatch, facts - done), random_)).has_value());
  }
  void Remember(size_t batch, size_t batches);
  void RecallOne(size_t facts);
  void RecallMany(size_t spaces);
  void Start(size_t facts);
  void Kv();

 private:
  std::mt19937_64 random_{1};
  BenchEmbedder embedder_;
  fs::path folder_;
  std::unique_ptr<Memory> memory_;
};

void Bench::Remember(size_t batch, size_t batches) {
  const double before = embedder_.ms;
  const Stopwatch watch;
  for (size_t i = 0; i < batches; ++i) Must(memory_->Remember("remember", AnyFacts(batch, random_)).has_value());
  const double embedding = embedder_.ms - before, ms = watch.Millis() - embedding;
  std::printf("remember, %zu a call: %.0f facts/s (%.2f ms a call; making vectors: %.3f ms a fact, left out)\n", batch,
              static_cast<double>(batch * batches) / ms * 1000, ms / static_cast<double>(batches),
              embedding / static_cast<double>(batch * batches));
}

// One question each, in turns: ours with everything that recall does but embedding, FAISS's scan alone.
void Bench::RecallOne(size_t facts) {
  const std::string ns = "one of " + std::to_string(facts);
  Fill(ns, facts);
  ::faiss::IndexFlatIP flat(kDims);
  const NamespaceInfo info = memory_->Find(ns).value();
  Must(memory_->catalog()
           .ScanFacts(info.id, {.with_vector = true},
                      [&](const ScanRow& row) {
                        flat.add(1, row.vector.data());
                        return true;
                      })
           .has_value());
  RecallOptions options;
  options.top_k = kTopK;
  Times ours, theirs;
  std::vector<float> scores(kTopK);
  std::vector<::faiss::Index::idx_t> rows(kTopK);
  for (size_t i = 0; i < kQuestions + 20; ++i) {
    const std::string question = "What about " + Words(random_, 8) + "?";
    const std::vector<float> vector = embedder_.One(question);
    Stopwatch watch;
    const auto hits = memory_->Recall(ns, question, vector, options);
    const double our_ms = watch.Lap();
    Must(hits && hits->size() == std::min(kTopK, facts));
    watch.Lap();
    flat.search(1, vector.data(), kTopK, scores.data(), rows.data());
    if (i >= 20) theirs.ms.push_back(watch.Lap()), ours.ms.push_back(our_ms);
  }
  std::printf(
      "recall of %zu facts: p50 %.2f ms, p99 %.2f ms; FAISS flat scan p50 %.2f ms, p99 %.2f ms; bound %.2f ms\n", facts,
      ours.At(0.5), ours.At(0.99), theirs.At(0.5), theirs.At(0.99), 2 * theirs.At(0.99) + 4);
}

void Bench::RecallMany(size_t spaces) {
  for (size_t i = 0; i < spaces; ++i)
    Must(memory_->Remember("many " + std::to_string(i), AnyFacts(100, random_)).has_value());
  Open();
  RecallOptions options;
  options.top_k = kTopK;
  for (const char* const name : {"cold", "warm"}) {
    Times times;
    for (size_t i = 0; i < std::min(spaces, kQuestions); ++i) {
      const std::string ns = "many " + std::to_string(i * 7919 % spaces), question = Words(random_, 8);
      const std::vector<float> vector = embedder_.One(question);
      const Stopwatch watch;
      Must(memory_->Recall(ns, question, vector, options)->size() == kTopK);
      times.ms.push_back(watch.Millis());
    }
    std::printf("recall in %zu namespaces of 100 facts, %s: p50 %.2f ms, p99 %.2f ms\n", spaces, name, times.At(0.5),
                times.At(0.99));
  }
}

// What the heap has in use, mapped blocks too. (Resident memory does not tell: freed blocks are used again.)
double HeapBytes() {
  const struct mallinfo2 info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

void Bench::Start(size_t facts) {
  Stopwatch watch;
  Open();
  const double open_ms = watch.Lap(), before = HeapBytes();
  const std::string ns = "one of " + std::to_string(facts), question = Words(random_, 8);
  const std::vector<float> vector = embedder_.One(question);
  watch.Lap();
  Must(memory_->Recall(ns, question, vector, {}).has_value());
  std::printf("start with %zu facts: %.0f ms, the first recall of a namespace of %zu %.0f ms, then %.0f bytes a fact\n",
              static_cast<size_t>(memory_->Stats()->facts), open_ms, facts, watch.Lap(),
              (HeapBytes() - before) / static_cast<double>(facts));
}

// Records through the vault, and the same bytes through plain files, in turns.
void Bench::Kv() {
  const std::string ns = "kv";
  Fill(ns, kRecords);
  const NamespaceInfo info = memory_->Find(ns).value();
  const auto facts = memory_->catalog().ListFacts(info.id, {.limit = kRecords}).value();
  std::vector<NewRecord> records;
  std::vector<WantedRecord> wanted;
  const Tokens tokens(kTokens, 7);
  uint64_t bytes = 0;
  for (const FactRow& fact : facts) {
    RecordKey key{.name_space = ns, .fact_id = fact.id, .token_ids = tokens, .model_key = {3, 4}};
    KvPayload payload(kShape, kTokens);
    std::generate_n(payload.data(), payload.elements(), [&] { return static_cast<uint16_t>(random_()); });
    bytes += payload.bytes();
    records.push_back({fact.seq, std::make_shared<const KvRecord>(KvRecord{std::move(key), std::move(payload)}), {}});
    wanted.push_back({fact.seq, fact.id, 1, tokens});
  }
  const auto rate = [&](double ms) { return static_cast<double>(bytes) / ms / 1e6; };
  Stopwatch watch;
  for (size_t i = 0; i < kRecords; i += 20)
    Must(memory_->vault().Put(info.id, std::span(records).subspan(i, 20)).has_value());
  const double put = watch.Lap();
  const int file = ::open((folder_ / "plain").c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
  watch.Lap();
  for (size_t i = 0; i < kRecords; ++i) {
    const KvPayload& payload = records[i].record->payload;
    Must(::write(file, payload.data(), payload.bytes()) == static_cast<ssize_t>(payload.bytes()));
    if (i % 20 == 19) Must(::fdatasync(file) == 0);
  }
  const double written = watch.Lap();
  Times load, read;
  std::vector<char> into(bytes / kRecords);
  for (int round = 0; round < 5; ++round) {
    watch.Lap();
    for (size_t i = 0; i < kRecords; i += 20) {
      const auto some = std::span(wanted).subspan(i, 20);
      const auto loaded = memory_->vault().Load(info, {3, 4}, kShape, some).value();
      Must(std::none_of(loaded.begin(), loaded.end(), [](const auto& each) { return each == nullptr; }));
    }
    load.ms.push_back(watch.Lap());
    for (size_t i = 0; i < kRecords; ++i)
      Must(::pread(file, into.data(), into.size(), static_cast<off_t>(i * into.size())) > 0);
    read.ms.push_back(watch.Lap());
  }
  ::close(file);
  std::printf(
      "KV, %zu records of %.0f KB, in the page cache: put %.2f GB/s, plain writes %.2f; load %.2f GB/s, plain "
      "reads %.2f\n",
      kRecords, static_cast<double>(bytes) / kRecords / 1e3, rate(put), rate(written), rate(load.At(0.5)),
      rate(read.At(0.5)));
}

}  // namespace
}  // namespace inferscale

int main(int argc, char** argv) {
  const size_t facts = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
  const size_t spaces = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 10'000;
  omp_set_num_threads(1);
  inferscale::Bench bench;
  bench.Remember(1, 200);
  bench.Remember(256, 20);
  bench.Kv();
  for (size_t size = 1000; size < facts; size *= 10) bench.RecallOne(size);
  bench.RecallOne(facts);
  bench.Start(facts);
  bench.RecallMany(spaces);
}
