#include "memory/memory_threads_test_util.h"

#include <mutex>
#include <thread>

namespace inferscale {

namespace {

constexpr int kWriters = 8, kReaders = 32;
constexpr char kSpaces[][8] = {"user:a", "user:b"};

struct Shared {
  Memory& memory;
  std::chrono::steady_clock::time_point end;
  std::atomic<uint64_t> counted{0}, conflicts{0}, recalls{0}, records{0}, hits{0};
  std::mutex mutex;
  std::set<std::string> deleted;  // texts whose deletion returned; none is ever stored again

  bool IsOver() const { return std::chrono::steady_clock::now() >= end || ::testing::Test::HasFailure(); }
  std::set<std::string> Deleted() {
    const std::lock_guard lock(mutex);
    return deleted;
  }
};

// The number of the counter goes up by one, unless somebody else was faster.
void Count(Shared& shared, std::string_view ns) {
  const auto info = shared.memory.Find(ns);
  ASSERT_TRUE(info) << info.error().message;
  const auto fact = shared.memory.catalog().GetFact(info->id, "counter");
  ASSERT_TRUE(fact) << fact.error().message;
  Memory::Update update;
  update.text = "counter " + std::to_string(std::stoull(fact->text.substr(8)) + 1);
  update.expected_version = fact->version;
  const auto updated = shared.memory.UpdateFact(ns, "counter", update);
  if (!updated) {
    ASSERT_EQ(updated.error().code, ErrorCode::kConflict) << updated.error().message;
  }
  ++(updated ? shared.counted : shared.conflicts);
}

class Writer {
 public:
  Writer(Shared& shared, int number)
      : shared_(shared), ns_(kSpaces[number % 2]), name_("w" + std::to_string(number)), number_(number) {}

  void Run() {
    for (uint64_t step = 0; !shared_.IsOver(); ++step) {
      Count(shared_, ns_);
      Add(step);
      if (step % 2 == 0) Encode();
      if (step % 3 == 0 && !facts_.empty()) Delete();
      if (step % 7 == 0 && !facts_.empty()) Update(step);
      if (step % 20 == 0 && number_ == 0) {
        EXPECT_TRUE(shared_.memory.ForgetExpired());
      }
      if (step % 20 == 0 && number_ == 1) {
        EXPECT_TRUE(shared_.memory.vault().Compact());
      }
    }
  }
  void Check() {
    for (const auto& [id, text] : facts_) {
      const auto fact = shared_.memory.catalog().GetFact(shared_.memory.Find(ns_)->id, id);
      ASSERT_TRUE(fact) << id;
      EXPECT_EQ(fact->text, text) << "a lost update";
    }
  }
  size_t facts() const { return facts_.size(); }

 private:
  void Add(uint64_t step) {
    const std::string id = name_ + "." + std::to_string(step), text = "written by " + id;
    const std::vector<FactInput> fact = {Given(text, id)};
    const auto added = shared_.memory.Remember(ns_, fact);
    ASSERT_TRUE(added) << added.error().message;
    facts_[id] = text;
    const auto found = shared_.memory.Recall(ns_, text, {});
    ASSERT_TRUE(found) << found.error().message;
    ASSERT_FALSE(found->empty());
    EXPECT_EQ(found->at(0).fact.id, id) << "what was remembered is found at once";
  }
  void Update(uint64_t step) {
    auto& [id, text] = *facts_.begin();
    const std::string old = text;
    text = "changed by " + id + " at " + std::to_string(step);
    Memory::Update update;
    update.text = text;
    ASSERT_TRUE(shared_.memory.UpdateFact(ns_, id, update));
    const std::lock_guard lock(shared_.mutex);
    shared_.deleted.insert(old);
  }
  void Delete() {
    const auto [id, text] = *facts_.begin();
    const auto deleted = shared_.memory.Forget(ns_, {&id, 1});
    ASSERT_TRUE(deleted) << deleted.error().message;
    ASSERT_EQ(deleted->deleted, 1u);
    facts_.erase(facts_.begin());
    const std::lock_guard lock(shared_.mutex);
    shared_.deleted.insert(text);
  }
  void Encode() {
    const auto ns = shared_.memory.Find(ns_);
    const auto row = shared_.memory.catalog().GetFact(ns->id, facts_.rbegin()->first);
    ASSERT_TRUE(row) << row.error().message;
    const NewRecord record{row->seq, MakeRecord(ns_, *row, {}), {}};
    const auto put = shared_.memory.vault().Put(ns->id, {&record, 1});
    ASSERT_TRUE(put) << put.error().message;
    shared_.records += put->at(0) ? 1 : 0;
  }

  Shared& shared_;
  const std::string ns_, name_;
  const int number_;
  std::map<std::string, std::string> facts_;
};

void Read(Shared& shared, int number) {
  const std::string ns = kSpaces[number % 2];
  const NamespaceInfo info = shared.memory.Find(ns).value();
  RecallOptions options;
  options.top_k = 50;
  options.filter = number % 4 == 3 ? R"({"text": {"contains": "w"}})" : "";
  for (uint64_t round = 0; !shared.IsOver(); ++round) {
    const std::set<std::string> deleted = shared.Deleted();
    const std::string query = "written by w" + std::to_string(round % kWriters) + "." + std::to_string(round);
    const auto hits = shared.memory.Recall(ns, query, options);
    ASSERT_TRUE(hits) << hits.error().message;
    std::vector<Tokens> tokens;
    for (const RecallHit& hit : *hits) {
      EXPECT_FALSE(deleted.contains(hit.fact.text)) << "deleted before the question";
      tokens.push_back(TokensOf(hit.fact.text));
    }
    std::vector<WantedRecord> wanted;
    for (size_t i = 0; i < hits->size(); ++i)
      wanted.push_back({hits->at(i).fact.seq, hits->at(i).fact.id, hits->at(i).fact.version, tokens[i]});
    const auto loaded = shared.memory.vault().Load(info, kKvModel, kKvShape, wanted);
    ASSERT_TRUE(loaded) << loaded.error().message;
    for (const RecordHandle& record : *loaded) shared.hits += record ? 1 : 0;
    ++shared.recalls;
  }
}

}  // namespace

void MemoryThreadsTest::RunThreads(std::chrono::seconds duration) {
  for (const char* ns : kSpaces) RememberText(ns, "counter 0", "counter");
  Shared shared{memory(), std::chrono::steady_clock::now() + duration};
  std::vector<std::unique_ptr<Writer>> writers;
  for (int i = 0; i < kWriters; ++i) writers.push_back(std::make_unique<Writer>(shared, i));
  std::vector<std::thread> threads;
  for (const auto& writer : writers) threads.emplace_back([&writer] { writer->Run(); });
  for (int i = 0; i < kReaders; ++i) threads.emplace_back([&shared, i] { Read(shared, i); });
  for (std::thread& thread : threads) thread.join();

  uint64_t counted = 0;
  for (const char* ns : kSpaces) counted += std::stoull(Fact(ns, "counter").text.substr(8));
  EXPECT_EQ(counted, shared.counted) << "an update was lost";
  size_t facts = 2;
  for (const auto& writer : writers) {
    writer->Check();
    facts += writer->facts();
  }
  EXPECT_EQ(memory().Stats()->facts, facts);
  EXPECT_EQ(memory().Stats()->erase_pending, 0u);
  EXPECT_EQ(Findings(), std::vector<std::string>());
  EXPECT_GT(shared.counted, 8u);
  EXPECT_GT(shared.recalls, 32u);
  EXPECT_GT(shared.hits, 8u);
  RecordProperty("updates", std::to_string(shared.counted));
  RecordProperty("conflicts", std::to_string(shared.conflicts));
  RecordProperty("recalls", std::to_string(shared.recalls));
  RecordProperty("records", std::to_string(shared.records));
}

}  // namespace inferscale
