#include "base/file_ops.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <iterator>
#include <set>

#include "base/file_ops_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

class FileOpsTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(root_); }
  void TearDown() override { fs::remove_all(root_); }

  static Status Write(File& file, uint64_t offset, std::string_view bytes) { return file.Write(offset, {&bytes, 1}); }
  static std::string Slurp(const fs::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  // What is in `name` after a power cut behind all that was recorded; "-" when there is no such file.
  std::string AfterCut(Unsynced unsynced, const std::string& name, uint64_t seed = 1) {
    const fs::path disk = root_ / "disk";
    fs::remove_all(disk);
    MakeAfterPowerCut(log_.Copy(), log_.size(), unsynced, seed, disk);
    return fs::exists(disk / name) ? Slurp(disk / name) : "-";
  }

  const fs::path root_ = fs::path(testing::TempDir()) / ("file_ops_test." + std::to_string(::getpid()));
  FileOpLog log_;
  RecordingFiles files_{root_ / "live", &log_};
};

TEST_F(FileOpsTest, WritesPiecesReadsThemAndPunchesHoles) {
  FileOps& ops = PosixFiles();
  ASSERT_TRUE(ops.MakeFolder(root_ / "a" / "b"));
  struct stat st {};
  ASSERT_EQ(::stat((root_ / "a").c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 0777, 0700u);
  const auto file = *ops.Open(root_ / "a" / "b" / "f", OpenMode::kCreate);
  EXPECT_EQ(ops.Open(root_ / "a" / "b" / "f", OpenMode::kCreate).error().code, ErrorCode::kIo);
  EXPECT_EQ(ops.Open(root_ / "none", OpenMode::kRead).error().code, ErrorCode::kNotFound);
  std::vector<std::string> parts;
  std::string all;
  for (int i = 0; i < 40; ++i) {  // more than one system call takes
    parts.push_back(std::string(static_cast<size_t>(i % 7) * 1000, static_cast<char>('a' + i % 26)));
    all += parts.back();
  }
  ASSERT_TRUE(file->Write(5, std::vector<std::string_view>(parts.begin(), parts.end())));
  std::string read(all.size() + 100, '?');
  const auto count = file->Read(5, std::as_writable_bytes(std::span(read)));
  ASSERT_TRUE(count.has_value());
  EXPECT_EQ(*count, all.size());
  EXPECT_EQ(read.substr(0, *count), all);
  const auto punched = file->PunchHole(5, 9000);
  ASSERT_TRUE(punched.has_value());
  if (*punched) {
    EXPECT_EQ(Slurp(root_ / "a" / "b" / "f").substr(5, 9001), std::string(9000, '\0') + all[9000]);
  }
  EXPECT_EQ(file->Size()->bytes, all.size() + 5);
  EXPECT_EQ(*ops.List(root_ / "a" / "b"), std::vector<std::string>{"f"});
}

TEST_F(FileOpsTest, APowerCutLosesWhatWasNotSynced) {
  ASSERT_TRUE(files_.MakeFolder(root_ / "live"));
  const auto file = *files_.Open(root_ / "live" / "f", OpenMode::kCreate);
  ASSERT_TRUE(Write(*file, 0, "first"));
  EXPECT_EQ(AfterCut(Unsynced::kKept, "f"), "first");
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "-");
  ASSERT_TRUE(file->Sync());
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "-") << "its name is not durable";
  ASSERT_TRUE(files_.SyncFolder(root_ / "live"));
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "first");
  ASSERT_TRUE(Write(*file, 2, "TWO"));
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "first");
  EXPECT_EQ(AfterCut(Unsynced::kKept, "f"), "fiTWO");
  ASSERT_TRUE(file->Truncate(1));
  EXPECT_EQ(AfterCut(Unsynced::kKept, "f"), "f");
  ASSERT_TRUE(files_.Rename(root_ / "live" / "f", root_ / "live" / "g"));
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "first");
  EXPECT_EQ(AfterCut(Unsynced::kKept, "g"), "f");
  ASSERT_TRUE(files_.Unlink(root_ / "live" / "g"));
  EXPECT_EQ(AfterCut(Unsynced::kKept, "g"), "-");
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "first");
  ASSERT_TRUE(files_.SyncFolder(root_ / "live"));
  EXPECT_EQ(AfterCut(Unsynced::kDropped, "f"), "-");
}

TEST_F(FileOpsTest, ATornWriteIsTornAtSectors) {
  ASSERT_TRUE(files_.MakeFolder(root_ / "live"));
  const auto file = *files_.Open(root_ / "live" / "f", OpenMode::kCreate);
  ASSERT_TRUE(Write(*file, 0, std::string(2048, 'o')));
  ASSERT_TRUE(file->Sync() && files_.SyncFolder(root_ / "live"));
  ASSERT_TRUE(Write(*file, 100, std::string(1500, 'n')));
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const std::string content = AfterCut(Unsynced::kTorn, "f", seed);
    ASSERT_EQ(content.size(), 2048u);
    std::string sectors;  // n or o for each of the four that the write touches
    for (const auto& [from, to] : {std::pair{100, 512}, {512, 1024}, {1024, 1536}, {1536, 1600}}) {
      const std::string sector = content.substr(static_cast<size_t>(from), static_cast<size_t>(to - from));
      ASSERT_EQ(sector, std::string(sector.size(), sector[0])) << "a sector is whole or not there";
      sectors += sector[0];
    }
    EXPECT_EQ(content.substr(0, 100) + content.substr(1600), std::string(548, 'o'));
    seen.insert(sectors);
  }
  EXPECT_EQ(seen.size(), 16u) << "every combination comes up";
}

TEST_F(FileOpsTest, AFailureToOrderStandsInForTheOperation) {
  ASSERT_TRUE(files_.MakeFolder(root_ / "live"));
  const auto file = *files_.Open(root_ / "live" / "f", OpenMode::kCreate);
  const size_t ops = log_.size();
  files_.before = [](const FileOp&) { return Fail(ErrorCode::kNoSpace, "full"); };
  EXPECT_EQ(Write(*file, 0, "x").error().code, ErrorCode::kNoSpace);
  EXPECT_EQ(log_.size(), ops);
  EXPECT_EQ(Slurp(root_ / "live" / "f"), "");
}

}  // namespace
}  // namespace inferscale
