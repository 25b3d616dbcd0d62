#include "store/record_cache.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/file.h"
#include "base/limits.h"
#include "store/record_folder.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using std::chrono::hours;

constexpr KvShape kShape = {.layers = 2, .kv_heads = 2, .key_dim = 16, .value_dim = 16};  // 256 bytes per token

RecordKey MakeKey(const std::string& fact, const std::string& model = "model", TokenId token = 1) {
  return {.name_space = "local", .fact_id = fact, .token_ids = Tokens(8, token), .model_key = HashBytes(model)};
}

KvRecord MakeRecord(const RecordKey& key, const KvShape& shape = kShape) {
  KvPayload payload(shape, static_cast<uint32_t>(key.token_ids.size()));
  for (size_t i = 0; i < payload.elements(); ++i) payload.data()[i] = static_cast<uint16_t>(i + key.fact_id.back());
  return {key, std::move(payload)};
}

RecordHandle MakeHandle(const RecordKey& key) { return std::make_shared<const KvRecord>(MakeRecord(key)); }

bool SamePayload(const RecordHandle& handle, const KvRecord& record) {
  return handle != nullptr && handle->payload.bytes() == record.payload.bytes() &&
         std::memcmp(handle->payload.data(), record.payload.data(), record.payload.bytes()) == 0;
}

class RecordCacheTest : public testing::Test {
 protected:
  RecordCacheTest() : folder_(fs::path(testing::TempDir()) / ("record_cache_test." + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~RecordCacheTest() override { fs::remove_all(folder_); }

  std::unique_ptr<RecordCache> Open(RecordCacheOptions options = {.threads = 2}) {
    auto cache = RecordCache::Open(folder_ / "records", options);
    EXPECT_TRUE(cache.has_value());
    return std::move(*cache);
  }

  // Every way of asking, so that all agree: no record.
  static void ExpectMissing(RecordCache& cache, const RecordKey& key) {
    const auto found = cache.Find(key, kShape);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, nullptr);
    EXPECT_FALSE(cache.Contains(key));
    EXPECT_FALSE((*cache.Verify({&key, 1}, kShape))[0]);
  }

  const fs::path folder_;
};

TEST_F(RecordCacheTest, FindsWhatWasPut) {
  const RecordKey key = MakeKey("f1");
  {
    const auto cache = Open();
    ExpectMissing(*cache, key);
    ASSERT_TRUE(cache->Put(MakeHandle(key)));
    EXPECT_TRUE(cache->TakeMessages().empty());
  }
  const auto cache = Open();  // another run
  EXPECT_TRUE(cache->Contains(key));
  const auto found = cache->Find(key, kShape);
  ASSERT_TRUE(found.has_value());
  EXPECT_TRUE(SamePayload(*found, MakeRecord(key)));
  EXPECT_EQ((*found)->key, key);
  EXPECT_EQ(cache->stats().hits, 1u);
  EXPECT_EQ(cache->stats().bytes_read, 2048u);
  EXPECT_FALSE(cache->Find(key, KvShape{}));
}

TEST_F(RecordCacheTest, AnyOtherKeyIsAMiss) {
  const auto cache = Open();
  ASSERT_TRUE(cache->Put(MakeHandle(MakeKey("f1"))));
  ExpectMissing(*cache, MakeKey("f1", "other model"));
  ExpectMissing(*cache, MakeKey("f1", "model", 2));  // other tokens
  RecordKey window = MakeKey("f1");
  window.window_digest = HashBytes("what it saw");
  ExpectMissing(*cache, window);
  EXPECT_TRUE(cache->TakeMessages().empty()) << "nothing is wrong with the file";
  EXPECT_TRUE(cache->Contains(MakeKey("f1")));
}

TEST_F(RecordCacheTest, FindAllReadsMany) {
  const auto cache = Open();
  std::vector<RecordKey> keys;
  for (int i = 0; i < 101; ++i) {
    keys.push_back(MakeKey("f" + std::to_string(i)));
    if (i % 3 != 0) {
      ASSERT_TRUE(cache->Put(MakeHandle(keys.back())));
    }
  }
  const auto found = cache->FindAll(keys, kShape);
  const auto whole = cache->Verify(keys, kShape);
  ASSERT_TRUE(found.has_value() && whole.has_value());
  for (size_t i = 0; i < keys.size(); ++i) {
    EXPECT_EQ(SamePayload((*found)[i], MakeRecord(keys[i])), i % 3 != 0) << i;
    EXPECT_EQ((*whole)[i], i % 3 != 0) << i;
  }
  EXPECT_EQ(cache->stats().misses, 2u * 34);
  EXPECT_TRUE(cache->FindAll({}, kShape)->empty());
}

TEST_F(RecordCacheTest, ADamagedFileIsRemovedReportedAndMadeAgain) {
  const RecordKey key = MakeKey("f1");
  const auto cache = Open();
  const fs::path path = cache->PathOf(key.Id());
  for (const size_t at : {size_t{0}, size_t{9}, size_t{150}, size_t{700}, SIZE_MAX}) {
    ASSERT_TRUE(cache->Put(MakeHandle(key)));
    std::string bytes = *ReadFile(path, 1 << 20);
    if (at == SIZE_MAX)
      bytes.resize(bytes.size() / 2);
    else
      bytes[at] = static_cast<char>(bytes[at] ^ 4);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
    const uint64_t damaged = cache->stats().damaged;
    const auto found = cache->Find(key, kShape);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(*found, nullptr) << at;
    EXPECT_FALSE(fs::exists(path)) << at;
    EXPECT_EQ(cache->stats().damaged, damaged + 1) << at;
    const auto messages = cache->TakeMessages();
    ASSERT_EQ(messages.size(), 1u) << at;
    EXPECT_NE(messages[0].find(path.string()), std::string::npos);
    ASSERT_TRUE(cache->Put(MakeHandle(key)));
    EXPECT_TRUE(SamePayload(*cache->Find(key, kShape), MakeRecord(key)));
  }
}

TEST_F(RecordCacheTest, APipeInARecordsPlaceIsNotWaitedFor) {
  const RecordKey key = MakeKey("a");
  auto cache = Open();
  ASSERT_TRUE(cache->Put(MakeHandle(key)));
  fs::remove(cache->PathOf(key.Id()));
  ASSERT_EQ(::mkfifo(cache->PathOf(key.Id()).c_str(), 0600), 0);
  EXPECT_EQ(*cache->Find(key, kShape), nullptr);
  EXPECT_EQ(cache->stats().damaged, 1u);
}

TEST_F(RecordCacheTest, ForeignFilesUnderARecordsName) {
  const RecordKey key = MakeKey("f1");
  const auto cache = Open();
  const fs::path path = cache->PathOf(key.Id());
  fs::create_directories(path.parent_path());
  for (const KvRecord& other : {MakeRecord(MakeKey("f1", "other model")), MakeRecord(MakeKey("f1", "model", 2)),
                                MakeRecord(key, {.layers = 1, .kv_heads = 2, .key_dim = 16, .value_dim = 16})}) {
    ASSERT_TRUE(WriteRecordFile(path, other));
    EXPECT_EQ(*cache->Find(key, kShape), nullptr);
    EXPECT_FALSE(fs::exists(path));
    EXPECT_EQ(cache->TakeMessages().size(), 1u);
  }
  EXPECT_EQ(cache->stats().foreign, 3u);
  ASSERT_TRUE(WriteRecordFile(path, MakeRecord(MakeKey("f2"))));
  EXPECT_FALSE(cache->Contains(key));
  EXPECT_EQ(cache->stats().foreign, 4u);
}

TEST_F(RecordCacheTest, WhatWasReadLatelyComesFromMemory) {
  const RecordKey key = MakeKey("a");
  const KvRecord record = MakeRecord(key);
  auto cache = Open({.recent_bytes = 1 << 20, .threads = 2});
  ASSERT_TRUE(cache->Put(MakeHandle(key)));
  ASSERT_TRUE(SamePayload(*cache->Find(key, kShape), record));
  const uint64_t read = cache->stats().bytes_read;
  fs::remove(cache->PathOf(key.Id()));
  EXPECT_TRUE(SamePayload(*cache->Find(key, kShape), record));
  EXPECT_TRUE(SamePayload((*cache->FindAll({&key, 1}, kShape))[0], record));
  EXPECT_EQ(cache->stats().bytes_read, read);
  EXPECT_EQ(cache->stats().hits, 3u);
  // What is asked of the files is answered by the files.
  EXPECT_FALSE(cache->Contains(key));
  EXPECT_FALSE((*cache->Verify({&key, 1}, kShape))[0]);
  // The id does not hold the shape.
  KvShape other = kShape;
  other.kv_heads = 1;
  EXPECT_EQ(*cache->Find(key, other), nullptr);
  EXPECT_EQ(*Open()->Find(key, kShape), nullptr);
}

TEST_F(RecordCacheTest, ManyDamagedFilesAreFewMessages) {
  const auto cache = Open();
  std::vector<RecordKey> keys;
  for (int i = 0; i < 50; ++i) {
    keys.push_back(MakeKey("f" + std::to_string(i)));
    ASSERT_TRUE(cache->Put(MakeHandle(keys.back())));
    std::ofstream(cache->PathOf(keys.back().Id()), std::ios::trunc) << "not a record";
  }
  ASSERT_TRUE(cache->FindAll(keys, kShape));
  EXPECT_EQ(cache->stats().damaged, 50u);
  const auto messages = cache->TakeMessages();
  ASSERT_EQ(messages.size(), 21u);
  EXPECT_EQ(messages.back(), "and 30 more messages of this kind");
}

// Tests run as root, for whom no folder is write-protected: a file stands in the way instead.
TEST_F(RecordCacheTest, AFolderThatCannotBeMadeIsReadOnlyMode) {
  fs::create_directories(folder_);
  std::ofstream(folder_ / "records") << "a file";
  const auto cache = Open();
  EXPECT_NE(cache->read_only_reason().find((folder_ / "records").string()), std::string::npos);
  EXPECT_EQ(cache->TakeMessages().size(), 1u);
  const RecordKey key = MakeKey("f1");
  ExpectMissing(*cache, key);
  ASSERT_TRUE(cache->Put(MakeHandle(key)));  // the command goes on: kept in memory
  EXPECT_TRUE(cache->Contains(key));
  EXPECT_TRUE(SamePayload(*cache->Find(key, kShape), MakeRecord(key)));
  EXPECT_TRUE(SamePayload((*cache->FindAll({&key, 1}, kShape))[0], MakeRecord(key)));
  EXPECT_EQ(cache->stats().in_memory, 1u);
  EXPECT_EQ(cache->stats().stored, 0u);
  EXPECT_FALSE(RecordCache::Open(""));
}

TEST_F(RecordCacheTest, AFailedWriteIsToldOnceAndNotFatal) {
  const auto cache = Open();
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const rlimit small = {1024, old_limit.rlim_max};  // as on a full disk, writing fails in the middle of the file
  const auto old_handler = std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const RecordKey one = MakeKey("f1"), two = MakeKey("f2");
  const Status put_one = cache->Put(MakeHandle(one)), put_two = cache->Put(MakeHandle(two));
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  std::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(put_one && put_two);
  EXPECT_EQ(cache->TakeMessages().size(), 1u);
  EXPECT_TRUE(SamePayload(*cache->Find(one, kShape), MakeRecord(one)));
  EXPECT_TRUE(SamePayload(*cache->Find(two, kShape), MakeRecord(two)));
  for (const auto& entry : fs::recursive_directory_iterator(folder_))
    EXPECT_TRUE(entry.is_directory()) << "half a file: " << entry;
  KvRecord wrong = MakeRecord(one);
  wrong.key.token_ids.pop_back();
  EXPECT_FALSE(Open()->Put(std::make_shared<const KvRecord>(std::move(wrong))))
      << "a record that no file could hold is the caller's error";
}

TEST_F(RecordCacheTest, EvictsWhatWasNotUsedForTheLongestTime) {
  const uint64_t bytes = SerializeRecord(MakeRecord(MakeKey("f0")))->size();
  const auto cache = Open({.budget_bytes = 10 * bytes, .threads = 1});
  std::vector<RecordKey> keys;
  const auto now = fs::file_time_type::clock::now();
  for (int i = 0; i < 10; ++i) {
    keys.push_back(MakeKey("f" + std::to_string(i)));
    ASSERT_TRUE(cache->Put(MakeHandle(keys.back())));
    fs::last_write_time(cache->PathOf(keys.back().Id()), now - hours(24 - i));
  }
  EXPECT_EQ(cache->stats().evicted, 0u);
  ASSERT_NE(*cache->Find(keys[0], kShape), nullptr);  // used: no longer the oldest
  keys.push_back(MakeKey("new"));
  ASSERT_TRUE(cache->Put(MakeHandle(keys.back())));
  EXPECT_EQ(cache->stats().evicted, 2u);  // 11 are 9 again: nine tenths of the budget
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(cache->Contains(keys[i]), i != 1 && i != 2) << i;
  const auto messages = cache->TakeMessages();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_NE(messages[0].find("full"), std::string::npos);
}

TEST_F(RecordCacheTest, CountsWhatEarlierRunsLeft) {
  const uint64_t bytes = SerializeRecord(MakeRecord(MakeKey("f0")))->size();
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(Open({.budget_bytes = 4 * bytes, .threads = 1})->Put(MakeHandle(MakeKey("f" + std::to_string(i)))));
  EXPECT_LE(SumBytes(ListRecordFiles(folder_ / "records")), 4 * bytes);
  EXPECT_GE(ListRecordFiles(folder_ / "records").size(), 3u);
}

TEST_F(RecordCacheTest, RemovesWhatACrashLeft) {
  const auto cache = Open();
  const RecordKey key = MakeKey("f1");
  ASSERT_TRUE(cache->Put(MakeHandle(key)));
  const fs::path part = cache->PathOf(key.Id()).parent_path();
  std::ofstream(part / "x.kv.tmp.1.0") << "old";
  std::ofstream(part / "y.kv.tmp.2.0") << "being written now";
  fs::last_write_time(part / "x.kv.tmp.1.0", fs::file_time_type::clock::now() - hours(2));
  EXPECT_EQ(ListRecordFiles(folder_ / "records").size(), 1u);
  EXPECT_FALSE(fs::exists(part / "x.kv.tmp.1.0"));
  EXPECT_TRUE(fs::exists(part / "y.kv.tmp.2.0"));
}

TEST_F(RecordCacheTest, DefaultBudget) {
  const uint64_t budget = DefaultRecordBudget(testing::TempDir(), 0);
  EXPECT_GT(budget, 0u);
  EXPECT_LE(budget, limits::kRecordCacheBytes);
  EXPECT_LE(budget, fs::space(testing::TempDir()).available / 10 + (64u << 20)) << "others may write meanwhile";
  EXPECT_EQ(DefaultRecordBudget("/no/such/folder", 0), limits::kRecordCacheBytes);
}

// Four processes write and read the same records; nobody ever sees half of one.
TEST_F(RecordCacheTest, ProcessesShareAFolder) {
  std::vector<pid_t> children;
  for (int child = 0; child < 4; ++child) {
    const pid_t pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      auto cache = RecordCache::Open(folder_ / "records", {.threads = 1});
      bool good = cache.has_value();
      for (int round = 0; round < 30 && good; ++round)
        for (int i = 0; i < 4 && good; ++i) {
          const RecordKey key = MakeKey("f" + std::to_string(i));
          good =
              (*cache)->Put(MakeHandle(key)).has_value() && SamePayload(*(*cache)->Find(key, kShape), MakeRecord(key));
        }
      ::_exit(good && (*cache)->TakeMessages().empty() ? 0 : 1);
    }
    children.push_back(pid);
  }
  for (const pid_t pid : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  EXPECT_EQ(ListRecordFiles(folder_ / "records").size(), 4u);
}

TEST_F(RecordCacheTest, ThreadsShareACache) {
  const auto cache = Open();
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        const RecordKey key = MakeKey("f" + std::to_string((i + t) % 7));
        EXPECT_TRUE(cache->Put(MakeHandle(key)));
        EXPECT_TRUE(SamePayload((*cache->FindAll({&key, 1}, kShape))[0], MakeRecord(key)));
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(cache->stats().hits, 200u);
}

}  // namespace
}  // namespace inferscale
