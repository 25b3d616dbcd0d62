#include "memory/memory_test_util.h"

#include <stdlib.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

namespace inferscale {

namespace fs = std::filesystem;

namespace {

// Calls word(w) for each.
template <class F>
void ForWords(std::string_view text, const F& word) {
  constexpr std::string_view kSpaces = " \t\n";
  for (size_t at = text.find_first_not_of(kSpaces); at != std::string_view::npos;) {
    const size_t end = std::min(text.find_first_of(kSpaces, at), text.size());
    word(text.substr(at, end - at));
    at = text.find_first_not_of(kSpaces, end);
  }
}

}  // namespace

size_t BagEmbedder::CountTokens(std::string_view text) const {
  size_t words = 2;
  ForWords(text, [&](std::string_view) { ++words; });
  return words;
}

Result<std::vector<float>> BagEmbedder::Embed(std::span<const std::string_view> texts) {
  std::vector<float> vectors(texts.size() * dim_);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::span<float> vector(vectors.data() + i * dim_, dim_);
    vector[0] = 1e-3f;  // of a text without words
    ForWords(texts[i], [&](std::string_view word) {
      std::minstd_rand random(static_cast<uint32_t>(HashBytes(word).low ^ key_.high));
      for (float& element : vector) element += static_cast<float>(random() % 2001) / 1000.0f - 1.0f;
    });
    double squares = 0;
    for (const float element : vector) squares += double{element} * element;
    for (float& element : vector) element /= static_cast<float>(std::sqrt(squares));
  }
  return vectors;
}

Tokens TokensOf(std::string_view text) {
  const Hash128 hash = HashBytes(text);
  return {static_cast<TokenId>(hash.low & 0x7FFFFFFF), static_cast<TokenId>((hash.low >> 32) & 0x7FFFFFFF),
          static_cast<TokenId>(hash.high & 0x7FFFFFFF)};
}

RecordHandle MakeRecord(std::string_view name_space, const FactRow& fact, const std::vector<Seen>& saw,
                        const ModelKey& model, size_t repeat, uint64_t seed) {
  static std::atomic<uint64_t> serial{uint64_t{1} << 32};
  RecordKey key;
  key.name_space = name_space;
  key.fact_id = fact.id;
  key.content_version = fact.version;
  for (size_t i = 0; i < repeat; ++i)
    for (const TokenId id : TokensOf(fact.text)) key.token_ids.push_back(id);
  key.model_key = model;
  Hasher window;
  for (const Seen& seen : saw) window.U32(static_cast<uint32_t>(seen.kind)).U64(seen.seq).U32(seen.version);
  key.window_digest = window.Finish();
  KvPayload payload(kKvShape, static_cast<uint32_t>(key.token_ids.size()));
  std::mt19937_64 random(seed != 0 ? seed : serial++);
  std::generate_n(payload.data(), payload.elements(), [&] { return static_cast<uint16_t>(random()); });
  return std::make_shared<const KvRecord>(KvRecord{std::move(key), std::move(payload)});
}

std::string PayloadOf(const KvRecord& record) {
  return {reinterpret_cast<const char*>(record.payload.data()), record.payload.bytes()};
}

FactInput Given(std::string_view text, std::string_view id) {
  FactInput fact;
  fact.text = text;
  fact.id = id;
  return fact;
}

RecallOptions All() {
  RecallOptions options;
  options.top_k = 1000;
  return options;
}

RecallOptions Filtered(std::string_view filter) {
  RecallOptions options = All();
  options.filter = filter;
  return options;
}

std::string Words(int count, const std::string& stem) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? " " : "") + stem + std::to_string(i);
  return text;
}

void MemoryTest::SetUp() {
  const fs::path memory = "/dev/shm";
  const fs::path parent = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  std::string pattern = (parent / "inferscale_memory_test.XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  Open();
}

void MemoryTest::TearDown() {
  memory_.reset();
  fs::remove_all(folder_);
}

MemoryOptions MemoryTest::Options() {
  MemoryOptions options;
  options.data_folder = folder_ / "data";
  options.kv.disk_bytes = 64u << 20;
  options.kv.hot_bytes = 8u << 20;
  options.clock = [this] { return NowMicros() + later_; };
  return options;
}

void MemoryTest::Open(const MemoryOptions& options) {
  memory_.reset();
  auto opened = Memory::Open(options, &embedder_);
  ASSERT_TRUE(opened) << opened.error().message;
  memory_ = std::move(*opened);
}

std::vector<AddedFact> MemoryTest::Remember(std::string_view ns, const std::vector<FactInput>& facts) {
  auto added = memory().Remember(ns, facts);
  EXPECT_TRUE(added) << added.error().message;
  return added ? std::move(added->facts) : std::vector<AddedFact>(facts.size());
}

std::string MemoryTest::RememberText(std::string_view ns, std::string_view text, std::string_view id) {
  return Remember(ns, {Given(text, id)}).at(0).id;
}

std::vector<RecallHit> MemoryTest::Recall(std::string_view ns, std::string_view query, const RecallOptions& options) {
  auto hits = memory().Recall(ns, query, options);
  EXPECT_TRUE(hits) << hits.error().message;
  return hits ? *std::move(hits) : std::vector<RecallHit>();
}

std::vector<std::string> MemoryTest::RecallTexts(std::string_view ns, std::string_view query,
                                                 const RecallOptions& options) {
  std::vector<std::string> texts;
  for (RecallHit& hit : Recall(ns, query, options)) texts.push_back(std::move(hit.fact.text));
  return texts;
}

DeleteResult MemoryTest::Forget(std::string_view ns, const std::vector<std::string>& ids) {
  auto deleted = memory().Forget(ns, ids);
  EXPECT_TRUE(deleted) << deleted.error().message;
  return deleted ? *std::move(deleted) : DeleteResult();
}

NamespaceInfo MemoryTest::Space(std::string_view ns) {
  const auto info = memory().Find(ns);
  EXPECT_TRUE(info) << info.error().message;
  return info.value_or(NamespaceInfo());
}

FactRow MemoryTest::Fact(std::string_view ns, std::string_view id) {
  auto row = memory().catalog().GetFact(Space(ns).id, id);
  EXPECT_TRUE(row) << row.error().message;
  return row ? *std::move(row) : FactRow();
}

bool MemoryTest::Encode(std::string_view ns, std::string_view id, const std::vector<std::string>& saw, size_t repeat) {
  const FactRow fact = Fact(ns, id);
  NewRecord record;
  record.fact = fact.seq;
  for (const std::string& each : saw) {
    const FactRow seen = Fact(ns, each);
    record.saw.push_back({SeenKind::kFact, seen.seq, seen.version});
  }
  record.record = MakeRecord(ns, fact, record.saw, kKvModel, repeat);
  const auto put = memory().vault().Put(Space(ns).id, {&record, 1});
  EXPECT_TRUE(put) << put.error().message;
  return put && put->at(0);
}

void MemoryTest::Fill(std::string_view ns, const std::string& prefix, int count, size_t repeat) {
  for (int i = 0; i < count; ++i) {
    const std::string id = prefix + std::to_string(i);
    RememberText(ns, "fact " + id, id);
    ASSERT_TRUE(Encode(ns, id, {}, repeat));
  }
}

RecordHandle MemoryTest::Load(std::string_view ns, std::string_view id, size_t repeat) {
  const FactRow fact = Fact(ns, id);
  Tokens tokens;
  for (size_t i = 0; i < repeat; ++i)
    for (const TokenId token : TokensOf(fact.text)) tokens.push_back(token);
  const WantedRecord wanted{fact.seq, fact.id, fact.version, tokens};
  const auto loaded = memory().vault().Load(Space(ns), kKvModel, kKvShape, {&wanted, 1});
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? loaded->at(0) : nullptr;
}

bool MemoryTest::IsQueued(std::string_view ns, std::string_view id) {
  const FactSeq seq = Fact(ns, id).seq;
  const auto queued = memory().catalog().QueuedFacts(Space(ns).id).value();
  return std::any_of(queued.begin(), queued.end(), [&](const QueueItem& item) { return item.fact == seq; });
}

std::string MemoryTest::Found(Memory& memory, std::string_view ns, std::string_view query,
                              const RecallOptions& options) {
  auto hits = memory.Recall(ns, query, options);
  EXPECT_TRUE(hits) << hits.error().message;
  if (!hits) return "error";
  std::stable_sort(hits->begin(), hits->end(), [](const RecallHit& a, const RecallHit& b) {
    return a.score != b.score ? a.score > b.score : a.fact.id < b.fact.id;
  });
  std::string all;
  for (const RecallHit& hit : *hits) {
    const float numbers[] = {hit.score, hit.cosine, hit.keyword};
    all += hit.fact.id + ' ' + HashBytes(numbers, sizeof(numbers)).Hex() + ' ' + hit.fact.text + '\n';
  }
  return all;
}

std::vector<std::string> MemoryTest::Findings(bool repair) {
  const auto found = memory().Fsck(repair);
  EXPECT_TRUE(found) << found.error().message;
  std::vector<std::string> all;
  if (found)
    for (const FsckFinding& finding : *found) all.push_back((finding.repaired ? "+" : "") + finding.what);
  return all;
}

std::string AllFiles(const fs::path& folder) {
  std::string all;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    all.append(std::istreambuf_iterator<char>(in), {});
  }
  return all;
}

}  // namespace inferscale
