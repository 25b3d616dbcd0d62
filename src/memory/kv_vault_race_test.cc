// KV records that die or move while they are read.
#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <thread>

#include "memory/kv_vault.h"
#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

class KvVaultRaceTest : public MemoryTest {
 protected:
};

// Files that let somebody act while a record is on its way from the disk.
class SlowFiles final : public FileOps {
 public:
  Result<std::unique_ptr<File>> Open(const fs::path& path, OpenMode mode) override;
  Status Unlink(const fs::path& path) override { return PosixFiles().Unlink(path); }
  Status Rename(const fs::path& from, const fs::path& to) override { return PosixFiles().Rename(from, to); }
  Status MakeFolder(const fs::path& folder) override { return PosixFiles().MakeFolder(folder); }
  Status SyncFolder(const fs::path& folder) override { return PosixFiles().SyncFolder(folder); }
  Result<std::vector<std::string>> List(const fs::path& folder) override { return PosixFiles().List(folder); }
  std::function<void()> after_read;
};

class SlowFile final : public File {
 public:
  SlowFile(std::unique_ptr<File> file, SlowFiles& files) : file_(std::move(file)), files_(files) {}
  Status Write(uint64_t offset, std::span<const std::string_view> pieces) override {
    return file_->Write(offset, pieces);
  }
  Result<size_t> Read(uint64_t offset, std::span<std::byte> into) override {
    auto read = file_->Read(offset, into);
    if (auto act = std::exchange(files_.after_read, nullptr)) act();
    return read;
  }
  Status Sync() override { return file_->Sync(); }
  Status Truncate(uint64_t bytes) override { return file_->Truncate(bytes); }
  Result<bool> PunchHole(uint64_t offset, uint64_t bytes) override { return file_->PunchHole(offset, bytes); }
  Result<FileSize> Size() override { return file_->Size(); }
  int descriptor() const override { return -1; }  // no io_uring: reads come here

 private:
  std::unique_ptr<File> file_;
  SlowFiles& files_;
};

Result<std::unique_ptr<File>> SlowFiles::Open(const fs::path& path, OpenMode mode) {
  TRY_ASSIGN(std::unique_ptr<File> file, PosixFiles().Open(path, mode));
  return std::unique_ptr<File>(std::make_unique<SlowFile>(std::move(file), *this));
}

TEST_F(KvVaultRaceTest, ARecordThatDiesWhileItIsReadStaysNowhere) {
  SlowFiles files;
  MemoryOptions options = Options();
  options.files = &files;
  options.kv.io_uring = false;
  Open(options);
  Fill(kAda, "f", 2);
  Open(options);  // nothing is hot
  const FactRow fact = Fact(kAda, "f0");
  bool died = false;
  files.after_read = [&] { died = Forget(kAda, {"f0"}).deleted == 1; };
  const Tokens tokens = TokensOf(fact.text);
  const WantedRecord wanted{fact.seq, fact.id, fact.version, tokens};
  const auto loaded = vault().Load(Space(kAda), kKvModel, kKvShape, {&wanted, 1});
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_TRUE(died);
  EXPECT_EQ(loaded->at(0), nullptr);
  EXPECT_EQ(vault().hot_stats().records, 0u);
  EXPECT_EQ(vault().hot_stats().used_bytes, 0u);
  Close();
}

TEST_F(KvVaultRaceTest, CompactionGoesOnBesideReadersAndWriters) {
  MemoryOptions options = Options();
  options.kv.disk_bytes = 32u << 20;  // segments of 4 MiB
  options.kv.hot_bytes = 1u << 20;    // most reads are of the disk
  Open(options);
  constexpr size_t kRepeat = 300;
  constexpr int kFacts = 120;
  Fill(kAda, "f", kFacts, kRepeat);
  for (int i = 0; i < kFacts; ++i)
    if (i % 3 != 0) Forget(kAda, {"f" + std::to_string(i)});
  std::map<std::string, std::string> payloads;
  for (int i = 0; i < kFacts; i += 3) {
    const std::string id = "f" + std::to_string(i);
    payloads[id] = PayloadOf(*Load(kAda, id, kRepeat));
  }
  std::atomic<bool> over{false};
  std::atomic<int> read{0}, missed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      while (!over)
        for (const auto& [id, payload] : payloads) {
          const RecordHandle loaded = Load(kAda, id, kRepeat);
          EXPECT_TRUE(!loaded || PayloadOf(*loaded) == payload);
          ++(loaded ? read : missed);
        }
    });
  threads.emplace_back([&] {
    for (int i = 0; !over; ++i) Fill(kBob, "g" + std::to_string(i) + "_", 1, kRepeat);
  });
  uint64_t moved = 0;
  for (int i = 0; i < 10; ++i) {
    const auto report = vault().Compact();
    EXPECT_TRUE(report) << report.error().message;
    if (report) moved += report->records;
    for (const int before = read; read < before + 50 && !HasFailure();) std::this_thread::yield();
  }
  over = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(moved, 10u);
  EXPECT_GT(read, 100);
  EXPECT_EQ(missed, 0) << "a record that only moved is there";
  for (const auto& [id, payload] : payloads) EXPECT_EQ(PayloadOf(*Load(kAda, id, kRepeat)), payload);
  EXPECT_THAT(Findings(), IsEmpty());
  EXPECT_EQ(memory().catalog().PendingErase(10)->size(), 0u);
}

}  // namespace
}  // namespace inferscale
