#include "catalog/catalog_threads_test_util.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>

#include "catalog/catalog_test_util.h"

namespace inferscale {

namespace {

constexpr int kWriters = 8, kReaders = 32;

struct Shared {
  Catalog& catalog;
  NamespaceId ns;
  std::chrono::steady_clock::time_point end;
  std::atomic<uint64_t> counted{0};    // updates of the counter that succeeded
  std::atomic<uint64_t> conflicts{0};  // and those that somebody else had overtaken
  std::atomic<uint64_t> reads{0};

  bool IsOver() const { return std::chrono::steady_clock::now() >= end || ::testing::Test::HasFailure(); }
};

// Adds one to the number in the fact's text, unless somebody else did meanwhile.
void Count(Shared& shared) {
  const auto fact = shared.catalog.GetFact(shared.ns, "counter");
  ASSERT_TRUE(fact) << fact.error().message;
  FactUpdate update{.content = ContentOf(std::to_string(std::stoull(fact->text) + 1))};
  update.expected_version = fact->version;
  const auto updated = shared.catalog.UpdateFact(shared.ns, "counter", update);
  if (updated) {
    ++shared.counted;
  } else {
    ASSERT_EQ(updated.error().code, ErrorCode::kConflict) << updated.error().message;
    ++shared.conflicts;
  }
}

class Writer {
 public:
  Writer(Shared& shared, int number) : shared_(shared), name_("w" + std::to_string(number)), number_(number) {}

  void Run() {
    for (uint64_t step = 0; !shared_.IsOver(); ++step) {
      Count(shared_);
      AddPair(step);
      if (step % 3 == 0) DeletePair();
      if (step % 5 == 0) Encode();
      if (step % 50 == 0 && number_ == 0) Expect(shared_.catalog.Scrub());
      if (step % 20 == 0) Expect(shared_.catalog.SetSetting(name_, std::to_string(step)));
      last_step_ = step;
    }
  }

  // That what it did last is there, and what it deleted is not.
  void Check() const {
    const auto setting = shared_.catalog.GetSetting(name_);
    ASSERT_TRUE(setting && *setting);
    EXPECT_EQ(**setting, std::to_string(last_step_ / 20 * 20));
    for (const auto& [id, seq] : facts_) EXPECT_TRUE(shared_.catalog.GetFact(shared_.ns, id)) << id;
  }
  size_t facts() const { return facts_.size(); }

 private:
  template <class T>
  static void Expect(const Result<T>& result) {
    EXPECT_TRUE(result.has_value()) << result.error().message;
  }
  void AddPair(uint64_t step) {
    const std::string id = name_ + "." + std::to_string(step);
    const std::vector<NewFact> pair = {FactOf(id + "a", id + " first pair"), FactOf(id + "b", id + " second pair")};
    const auto added = shared_.catalog.AddFacts(shared_.ns, pair, {});
    ASSERT_TRUE(added) << added.error().message;
    for (const AddedFact& fact : added->facts) facts_[fact.id] = fact.seq;
  }
  void DeletePair() {
    const std::vector<std::string> ids = {facts_.begin()->first, std::next(facts_.begin())->first};
    const auto deleted = shared_.catalog.DeleteFacts(shared_.ns, ids);
    ASSERT_TRUE(deleted) << deleted.error().message;
    EXPECT_EQ(deleted->deleted, 2u);
    for (const std::string& id : ids) facts_.erase(id);
  }
  void Encode() {
    if (facts_.empty()) return;
    KvRow row;
    const auto record = shared_.catalog.ReserveRecords(1);
    ASSERT_TRUE(record) << record.error().message;
    row.record = *record;
    row.name_space = shared_.ns;
    row.fact = facts_.rbegin()->second;
    row.model_key = kTestModel;
    row.n_tokens = 1;
    row.location = {1, row.record * 10, 10};
    Expect(shared_.catalog.PutRecords({&row, 1}));
  }

  Shared& shared_;
  const std::string name_;
  const int number_;
  uint64_t last_step_ = 0;
  std::map<std::string, FactSeq> facts_;
};

// A scan sees both facts of a pair or none.
void ScanPairs(Shared& shared) {
  std::set<std::string> open;
  const auto stats = shared.catalog.ScanFacts(shared.ns, {.with_vector = true}, [&](const ScanRow& row) {
    EXPECT_EQ(row.vector.size(), kTestDims);
    if (row.fact.id == "counter") return true;
    std::string pair = row.fact.id.substr(0, row.fact.id.size() - 1);
    if (!open.erase(pair)) open.insert(std::move(pair));
    return true;
  });
  ASSERT_TRUE(stats) << stats.error().message;
  EXPECT_EQ(stats->damaged_facts + stats->damaged_vectors, 0u);
  EXPECT_TRUE(open.empty()) << *open.begin();
}

void Read(Shared& shared) {
  uint64_t last = 0;
  for (uint64_t round = 0; !shared.IsOver(); ++round) {
    if (round % 8 == 0) ScanPairs(shared);
    const auto fact = shared.catalog.GetFact(shared.ns, "counter");
    ASSERT_TRUE(fact) << fact.error().message;
    EXPECT_GE(std::stoull(fact->text), last) << "time went back";
    EXPECT_EQ(fact->version, std::stoull(fact->text) + 1);
    last = std::stoull(fact->text);
    const auto postings = shared.catalog.Postings(shared.ns, std::vector<std::string>{"first", "second"}, 1'000'000);
    ASSERT_TRUE(postings) << postings.error().message;
    EXPECT_EQ(postings->at(0).postings.size(), postings->at(1).postings.size());
    const auto page = shared.catalog.ListFacts(shared.ns, {.limit = 20});
    ASSERT_TRUE(page) << page.error().message;
    shared.catalog.Touch(shared.ns);
    ++shared.reads;
  }
}

}  // namespace

void RunThreads(Catalog& catalog, NamespaceId ns, std::chrono::seconds duration) {
  const std::vector<NewFact> counter = {FactOf("counter", "0")};
  ASSERT_TRUE(catalog.AddFacts(ns, counter, {}));
  Shared shared{catalog, ns, std::chrono::steady_clock::now() + duration};
  std::vector<Writer> writers;
  for (int i = 0; i < kWriters; ++i) writers.emplace_back(shared, i);
  std::vector<std::thread> threads;
  for (Writer& writer : writers) threads.emplace_back([&writer] { writer.Run(); });
  for (int i = 0; i < kReaders; ++i) threads.emplace_back([&shared] { Read(shared); });
  for (std::thread& thread : threads) thread.join();

  EXPECT_EQ(catalog.GetFact(ns, "counter")->text, std::to_string(shared.counted)) << "an update was lost";
  size_t facts = 1;
  for (const Writer& writer : writers) {
    writer.Check();
    facts += writer.facts();
  }
  EXPECT_EQ(catalog.GetNamespace(ns)->facts, facts);
  const auto findings = catalog.Fsck(false);
  EXPECT_TRUE(findings && findings->empty());
  EXPECT_GT(shared.counted, 8u);
  EXPECT_GT(shared.reads, 32u);
  ::testing::Test::RecordProperty("updates", std::to_string(shared.counted));
  ::testing::Test::RecordProperty("conflicts", std::to_string(shared.conflicts));
  ::testing::Test::RecordProperty("reads", std::to_string(shared.reads));
}

}  // namespace inferscale
