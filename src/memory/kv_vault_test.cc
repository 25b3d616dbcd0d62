// KV records of the durable memory: what is loaded is what was put, or nothing.
#include "memory/kv_vault.h"

#include <gmock/gmock.h>

#include <fstream>
#include <utility>

#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

class KvVaultTest : public MemoryTest {
 protected:
  // How many of them are usable.
  int Usable(std::string_view ns, const std::string& prefix, int count, size_t repeat = 1) {
    int usable = 0;
    for (int i = 0; i < count; ++i) usable += Load(ns, prefix + std::to_string(i), repeat) != nullptr ? 1 : 0;
    return usable;
  }
  Result<std::vector<RecordHandle>> LoadAs(const NamespaceInfo& ns, const FactRow& fact, const Tokens& tokens,
                                           uint32_t version = 1, const ModelKey& model = kKvModel) {
    const WantedRecord wanted{fact.seq, fact.id, version, tokens};
    return memory().vault().Load(ns, model, kKvShape, {&wanted, 1});
  }
  // Without what is in the hot set.
  void Cool() { Open(); }
  std::vector<fs::path> Segments() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::directory_iterator(folder_ / "data" / "kv")) all.push_back(entry.path());
    return all;
  }
  size_t Erasing() { return memory().catalog().PendingErase(1000)->size(); }
};

TEST_F(KvVaultTest, WhatIsLoadedIsWhatWasPut) {
  Remember(kAda, {Given("one", "a"), Given("two", "b")});
  const FactRow fact = Fact(kAda, "a");
  const NewRecord record{fact.seq, MakeRecord(kAda, fact, {}), {}};
  EXPECT_TRUE(IsQueued(kAda, "a"));
  ASSERT_EQ(*vault().Put(Space(kAda).id, {&record, 1}), std::vector<bool>{true});
  EXPECT_FALSE(IsQueued(kAda, "a"));
  for (int round = 0; round < 3; ++round) {
    if (round == 2) Cool();
    const RecordHandle loaded = Load(kAda, "a");
    ASSERT_NE(loaded, nullptr);
    EXPECT_EQ(loaded->key, record.record->key);
    EXPECT_EQ(PayloadOf(*loaded), PayloadOf(*record.record));
    EXPECT_EQ(Load(kAda, "b"), nullptr);
  }
  const FactRow other = Fact(kAda, "b");
  const Tokens tokens = TokensOf("one"), other_tokens = TokensOf("two");
  const WantedRecord wanted[] = {{other.seq, other.id, 1, other_tokens}, {fact.seq, fact.id, 1, tokens}};
  EXPECT_EQ(*vault().Has(Space(kAda).id, kKvModel, wanted), (std::vector<bool>{false, true}));
  const auto both = vault().Load(Space(kAda), kKvModel, kKvShape, wanted);
  EXPECT_EQ(both->at(0), nullptr);
  EXPECT_NE(both->at(1), nullptr);
  EXPECT_THAT(*vault().Load(Space(kAda), kKvModel, kKvShape, {}), IsEmpty());
  EXPECT_THAT(*vault().Put(Space(kAda).id, {}), IsEmpty());
}

TEST_F(KvVaultTest, TheHotSetIsUsedInPlace) {
  Fill(kAda, "f", 1);
  const RecordHandle first = Load(kAda, "f0"), second = Load(kAda, "f0");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->payload.data(), second->payload.data()) << "both look at the same bytes";
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first->payload.data()) % 64, 0u);
  EXPECT_EQ(vault().hot_stats().records, 1u);
  EXPECT_EQ(vault().hot_stats().hits, 1u);
  EXPECT_GT(vault().hot_stats().pinned_bytes, 0u);
}

TEST_F(KvVaultTest, WhatIsNotExactlyWantedIsNotLoaded) {
  Fill(kAda, "f", 1);
  Fill(kBob, "f", 1);
  const FactRow fact = Fact(kAda, "f0"), bobs = Fact(kBob, "f0");
  const Tokens tokens = TokensOf(fact.text);
  EXPECT_EQ(LoadAs(Space(kAda), fact, tokens, 2)->at(0), nullptr) << "version";
  EXPECT_EQ(LoadAs(Space(kAda), fact, tokens, 1, {7, 7})->at(0), nullptr) << "model";
  EXPECT_EQ(LoadAs(Space(kBob), fact, tokens)->at(0), nullptr) << "namespace";
  EXPECT_EQ(LoadAs(Space(kAda), bobs, tokens)->at(0), nullptr) << "somebody else's fact";
  Tokens longer = tokens;
  longer.push_back(1);
  EXPECT_EQ(LoadAs(Space(kAda), fact, longer)->at(0), nullptr) << "number of tokens";
  EXPECT_NE(LoadAs(Space(kAda), fact, tokens)->at(0), nullptr);
  Tokens others = tokens;
  others[1] ^= 1;
  EXPECT_EQ(LoadAs(Space(kAda), fact, others)->at(0), nullptr) << "token ids";
  // Such a record is of no use to anybody.
  EXPECT_TRUE(IsQueued(kAda, "f0"));
  EXPECT_EQ(LoadAs(Space(kAda), fact, tokens)->at(0), nullptr);
  EXPECT_FALSE(IsQueued(kBob, "f0"));
}

TEST_F(KvVaultTest, RecordsOfChangedFactsAreRefusedOrDie) {
  Fill(kAda, "f", 4);
  ASSERT_TRUE(Encode(kAda, "f1", {"f0"}));
  const FactRow stale = Fact(kAda, "f0");
  const NewRecord late{stale.seq, MakeRecord(kAda, stale, {}), {}};
  Memory::Update update;
  update.text = "other words";
  ASSERT_TRUE(memory().UpdateFact(kAda, "f0", update));
  EXPECT_EQ(Load(kAda, "f0"), nullptr);
  EXPECT_EQ(Load(kAda, "f1"), nullptr) << "it saw the old words";
  EXPECT_NE(Load(kAda, "f2"), nullptr);
  EXPECT_TRUE(IsQueued(kAda, "f1"));
  EXPECT_EQ(*vault().Put(Space(kAda).id, {&late, 1}), std::vector<bool>{false});
  EXPECT_EQ(Load(kAda, "f0"), nullptr);
  EXPECT_EQ(Erasing(), 0u) << "bytes of dead records are destroyed when the call returns";
  EXPECT_EQ(vault().store_stats().records, 2u);
  EXPECT_EQ(vault().hot_stats().records, 1u) << "f2";
}

// Every byte of the files, one in each of many rounds: never a wrong record.
TEST_F(KvVaultTest, DamagedBytesAreDroppedAndQueued) {
  Fill(kAda, "f", 4);
  std::map<std::string, std::string> payloads;
  for (int i = 0; i < 4; ++i) payloads["f" + std::to_string(i)] = PayloadOf(*Load(kAda, "f" + std::to_string(i)));
  Close();
  ASSERT_EQ(Segments().size(), 1u);
  const fs::path segment = Segments()[0];
  const auto size = static_cast<std::streamoff>(fs::file_size(segment));
  int lost = 0;
  for (std::streamoff at = 4000; at < size; at += 211) {
    SCOPED_TRACE("byte " + std::to_string(at));
    const fs::path copy = folder_ / "copy";
    fs::remove_all(copy);
    fs::copy(folder_ / "data", copy, fs::copy_options::recursive);
    {
      std::fstream file(copy / "kv" / segment.filename(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekg(at);
      const char byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(at);
      file.put(byte);
    }
    MemoryOptions options = Options();
    options.data_folder = copy;
    Open(options);
    for (const auto& [id, payload] : payloads) {
      const RecordHandle loaded = Load(kAda, id);
      EXPECT_TRUE(!loaded || PayloadOf(*loaded) == payload);
      EXPECT_EQ(IsQueued(kAda, id), loaded == nullptr) << id;
      lost += loaded ? 0 : 1;
    }
  }
  EXPECT_GT(lost, 4);
}

TEST_F(KvVaultTest, DamageWhileItRunsIsFoundByVerifyAndByLoad) {
  Fill(kAda, "f", 3);
  Cool();
  const auto rows = memory().catalog().RecordsOf(Space(kAda).id, 10).value();
  for (int i = 0; i < 2; ++i) {
    std::fstream file(Segments()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(rows[static_cast<size_t>(i)].location.offset + 400));
    file.put('?');
    file.put('!');
  }
  EXPECT_EQ(Load(kAda, "f0"), nullptr);
  EXPECT_TRUE(IsQueued(kAda, "f0"));
  EXPECT_FALSE(IsQueued(kAda, "f1"));
  EXPECT_FALSE(Findings(true).empty());
  EXPECT_TRUE(IsQueued(kAda, "f1"));
  EXPECT_NE(Load(kAda, "f2"), nullptr);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(KvVaultTest, WithoutItsSegmentsTheMemoryIsAsBefore) {
  Fill(kAda, "f", 3);
  Close();
  fs::remove_all(folder_ / "data" / "kv");
  Open();
  EXPECT_EQ(vault().opening().lost, 3u);
  for (const char* id : {"f0", "f1", "f2"}) EXPECT_TRUE(IsQueued(kAda, id)) << id << ", before anyone asks for it";
  for (const char* id : {"f0", "f1", "f2"}) {
    EXPECT_EQ(Load(kAda, id), nullptr);
    EXPECT_TRUE(Encode(kAda, id));
    EXPECT_NE(Load(kAda, id), nullptr);
  }
  EXPECT_EQ(Recall(kAda, "fact").size(), 3u);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(KvVaultTest, BytesThatNoRowNamesAreDestroyedAtOpen) {
  Fill(kAda, "f", 2);
  const std::string payload = PayloadOf(*Load(kAda, "f0"));
  const auto rows = memory().catalog().RecordsOf(Space(kAda).id, 10).value();
  // As after a crash between the bytes and the row.
  ASSERT_TRUE(memory().catalog().DropRecords(std::vector<RecordSeq>{rows[0].record}, true));
  std::vector<uint64_t> forgotten;
  const auto pending = memory().catalog().PendingErase(10).value();
  for (const DeadRecord& dead : pending) forgotten.push_back(dead.erase_id);
  ASSERT_TRUE(memory().catalog().ForgetErased(forgotten));
  Close();
  EXPECT_NE(AllFiles(folder_).find(payload), std::string::npos);
  Open();
  EXPECT_EQ(vault().opening().orphans, 1u);
  EXPECT_EQ(vault().opening().lost, 0u);
  EXPECT_EQ(AllFiles(folder_).find(payload), std::string::npos);
  EXPECT_NE(Load(kAda, "f1"), nullptr);
}

TEST_F(KvVaultTest, WhatACrashLeftToEraseIsErasedAtOpen) {
  Fill(kAda, "f", 2);
  const std::string payload = PayloadOf(*Load(kAda, "f0"));
  const std::string id = "f0";
  ASSERT_TRUE(memory().catalog().DeleteFacts(Space(kAda).id, {&id, 1}));  // and no more: as a crash would
  EXPECT_EQ(Erasing(), 1u);
  Open();
  EXPECT_EQ(Erasing(), 0u);
  EXPECT_EQ(AllFiles(folder_).find(payload), std::string::npos);
}

TEST_F(KvVaultTest, RoomIsMadeFromNamespacesThatWereNotUsedTheLongest) {
  MemoryOptions options = Options();
  options.kv.disk_bytes = 4u << 20;
  Open(options);
  constexpr size_t kRepeat = 1300;  // 250 KB each: a dozen and a half fit
  Fill("user:first", "f", 5, kRepeat);
  later_ = 10'000'000;
  Fill("user:second", "f", 5, kRepeat);
  later_ = 20'000'000;
  Recall("user:first", "fact");  // in use: now `second` is the oldest
  RememberText("user:first", "noted with a change", "x");
  later_ = 30'000'000;
  Fill("user:third", "f", 9, kRepeat);
  EXPECT_EQ(Usable("user:third", "f", 9, kRepeat), 9);
  EXPECT_LT(Usable("user:second", "f", 5, kRepeat), 5);
  EXPECT_EQ(Usable("user:first", "f", 5, kRepeat), 5);
  EXPECT_EQ(Load("user:second", "f0", kRepeat), nullptr) << "the oldest goes first";
  EXPECT_FALSE(IsQueued("user:second", "f0")) << "evicted on purpose";
  EXPECT_LE(vault().store_stats().allocated_bytes, 4u << 20);
  EXPECT_EQ(Erasing(), 0u);
  // One namespace alone: its own oldest.
  Fill("user:fourth", "f", 30, kRepeat);
  EXPECT_NE(Load("user:fourth", "f29", kRepeat), nullptr);
  EXPECT_EQ(Load("user:fourth", "f0", kRepeat), nullptr);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_F(KvVaultTest, WhatCanNeverFitIsAnErrorAndLeavesNothing) {
  MemoryOptions options = Options();
  options.kv.disk_bytes = 1u << 20;
  Open(options);
  Remember(kAda, {Given("small", "small"), Given("large", "large")});
  const FactRow small = Fact(kAda, "small"), large = Fact(kAda, "large");
  const NewRecord records[] = {{small.seq, MakeRecord(kAda, small, {}), {}},
                               {large.seq, MakeRecord(kAda, large, {}, kKvModel, 1365), {}},  // 262 KB
                               {large.seq, MakeRecord(kAda, large, {}, kKvModel, 1365), {}},
                               {large.seq, MakeRecord(kAda, large, {}, kKvModel, 1365), {}},
                               {large.seq, MakeRecord(kAda, large, {}, kKvModel, 1365), {}}};
  const auto put = vault().Put(Space(kAda).id, records);
  EXPECT_EQ(CodeOf(put), ErrorCode::kNoSpace);
  EXPECT_THAT(MessageOf(put), testing::HasSubstr("--kv-budget"));
  EXPECT_EQ(vault().store_stats().records, 0u) << "no row names them: they are gone at once";
  EXPECT_TRUE(Encode(kAda, "small"));
}

TEST_F(KvVaultTest, ANamespaceHasItsOwnBudget) {
  MemoryOptions options = Options();
  options.kv.name_space_bytes = 1u << 20;
  Open(options);
  constexpr size_t kRepeat = 1300;
  Fill(kBob, "f", 2, kRepeat);
  Fill(kAda, "f", 8, kRepeat);
  EXPECT_LE(Space(kAda).kv_bytes, 1u << 20);
  EXPECT_EQ(Usable(kAda, "f", 8, kRepeat), 3) << "of 265 KB each";
  EXPECT_NE(Load(kAda, "f7", kRepeat), nullptr);
  EXPECT_EQ(Usable(kBob, "f", 2, kRepeat), 2) << "nobody else's";
}

TEST_F(KvVaultTest, BudgetsAreKeptUntilOthersAreSet) {
  const uint64_t first = memory().Stats()->kv_budget_bytes;
  EXPECT_EQ(memory().Stats()->kv_namespace_budget_bytes, first);
  const auto set = [&](uint64_t disk, uint64_t name_space) {
    MemoryOptions options = Options();
    options.kv.disk_bytes = disk;
    options.kv.name_space_bytes = name_space;
    Open(options);
    return std::pair(memory().Stats()->kv_budget_bytes, memory().Stats()->kv_namespace_budget_bytes);
  };
  EXPECT_EQ(set(0, 0), std::pair(first, first));
  EXPECT_EQ(set(8u << 20, 2u << 20), std::pair(uint64_t{8} << 20, uint64_t{2} << 20));
  EXPECT_EQ(set(0, 3u << 20), std::pair(uint64_t{8} << 20, uint64_t{3} << 20));
  EXPECT_EQ(set(0, 0), std::pair(uint64_t{8} << 20, uint64_t{3} << 20));
  ASSERT_TRUE(memory().catalog().SetSetting("kv_budget_bytes", "8 MiB"));
  Close();
  MemoryOptions options = Options();
  options.kv.disk_bytes = 0;
  EXPECT_EQ(CodeOf(Memory::Open(options, &embedder_)), ErrorCode::kCorrupt);
}

TEST_F(KvVaultTest, RecordsLargerThanTheHotSetAreReadFromTheDisk) {
  MemoryOptions options = Options();
  options.kv.hot_bytes = 64 << 10;
  Open(options);
  Fill(kAda, "f", 1, 1000);
  EXPECT_NE(Load(kAda, "f0", 1000), nullptr);
  EXPECT_EQ(vault().hot_stats().records, 0u);
}

}  // namespace
}  // namespace inferscale
