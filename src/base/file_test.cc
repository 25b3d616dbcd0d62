#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <fstream>
#include <functional>
#include <thread>
#include <vector>

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr size_t kMax = size_t{1} << 20;

class FileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "inferscale_file_test.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  size_t Entries() const {
    return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  fs::path folder_;
};

// Runs body in a child process whose privileges, limits and mounts may be changed; returns its exit status.
int InChild(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

constexpr int kOk = 0, kSkip = 77;
int ExitOf(bool ok) { return ok ? kOk : 1; }

TEST_F(FileTest, WhatIsWrittenIsRead) {
  const fs::path path = folder_ / "file";
  const std::string binary("a\0\xFF\n", 4);
  for (const std::string& content : {std::string(), binary, std::string(300'000, 'x')}) {
    ASSERT_TRUE(WriteFileAtomic(path, content));
    const auto read = ReadFile(path, kMax);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, content);
    EXPECT_EQ(Entries(), 1u);  // no temporary file stays
  }
}

TEST_F(FileTest, PiecesAreConcatenated) {
  const std::string_view pieces[] = {"one ", "", "two ", "three"};
  ASSERT_TRUE(WriteFileAtomic(folder_ / "file", pieces));
  EXPECT_EQ(ReadFile(folder_ / "file", kMax).value(), "one two three");
}

TEST_F(FileTest, LimitIsExact) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "file", std::string(100'000, 'x')));
  EXPECT_TRUE(ReadFile(folder_ / "file", 100'000));
  const auto read = ReadFile(folder_ / "file", 99'999);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kTooLarge);
  EXPECT_THAT(read.error().message, HasSubstr("99999"));
  EXPECT_EQ(ReadFile("/dev/null", 1000).value(), "");
  EXPECT_EQ(ReadFile("/dev/zero", 1000).error().code, ErrorCode::kInvalidArgument);  // would never end
}

TEST_F(FileTest, MissingFilesAndFolders) {
  const auto missing = ReadFile(folder_ / "none", kMax);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(missing.error().message, HasSubstr((folder_ / "none").string()));
  EXPECT_EQ(ReadFile(folder_, kMax).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(WriteFileAtomic(folder_ / "none" / "file", "x").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(WriteFileAtomic(folder_, "x"));  // a folder is not replaced
  EXPECT_TRUE(fs::is_directory(folder_));
}

TEST_F(FileTest, MakesFoldersOnce) {
  EXPECT_TRUE(MakeDirectories(folder_ / "a" / "b" / "c"));
  EXPECT_TRUE(MakeDirectories(folder_ / "a" / "b" / "c"));
  EXPECT_TRUE(fs::is_directory(folder_ / "a" / "b" / "c"));
  ASSERT_TRUE(WriteFileAtomic(folder_ / "file", "x"));
  EXPECT_FALSE(MakeDirectories(folder_ / "file" / "below"));
}

TEST_F(FileTest, WritersAtOnceLeaveOneWholeFile) {
  const fs::path path = folder_ / "file";
  std::atomic<int> failures{0};
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c) {
    writers.emplace_back([&, c] {
      for (int i = 0; i < 10; ++i) failures += !WriteFileAtomic(path, std::string(50'000, c));
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(failures, 0);
  const std::string content = ReadFile(path, kMax).value();
  EXPECT_EQ(content, std::string(50'000, content.at(0)));
  EXPECT_EQ(Entries(), 1u);
}

TEST_F(FileTest, FolderWithoutRights) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "file", "old"));
  ASSERT_EQ(::chmod((folder_ / "file").c_str(), 0000), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0555), 0);
  EXPECT_EQ(kOk, InChild([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) return 2;  // root may do everything: become nobody
    const Status written = WriteFileAtomic(folder_ / "file", "new");
    const auto read = ReadFile(folder_ / "file", kMax);
    const Status made = MakeDirectories(folder_ / "sub");
    return ExitOf(!written && written.error().code == ErrorCode::kPermission &&
                  written.error().message.find("rights") != std::string::npos && !read &&
                  read.error().code == ErrorCode::kPermission && !made &&
                  made.error().code == ErrorCode::kPermission);
  }));
  ASSERT_EQ(::chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(::chmod((folder_ / "file").c_str(), 0644), 0);
  EXPECT_EQ(ReadFile(folder_ / "file", kMax).value(), "old");
}

// A file system of 64 KiB at folder, which only this process sees. As root, or as anyone with a user namespace.
bool MountSmallDisk(const fs::path& folder) {
  const std::string users = "0 " + std::to_string(::geteuid()) + " 1";
  const std::string groups = "0 " + std::to_string(::getegid()) + " 1";
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
    std::ofstream("/proc/self/setgroups") << "deny";
    std::ofstream("/proc/self/uid_map") << users;  // unmapped, no file could be made
    std::ofstream("/proc/self/gid_map") << groups;
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return false;
  return ::mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=64k") == 0;
}

TEST_F(FileTest, FullDiskKeepsTheOldFile) {
  const int status = InChild([&] {
    if (!MountSmallDisk(folder_)) return kSkip;
    if (!WriteFileAtomic(folder_ / "file", "old")) return 2;
    const Status written = WriteFileAtomic(folder_ / "file", std::string(200'000, 'x'));
    if (written || written.error().code != ErrorCode::kNoSpace) return 3;
    if (written.error().message.find("free some disk space") == std::string::npos) return 4;
    if (ReadFile(folder_ / "file", kMax).value() != "old" || Entries() != 1) return 5;
    return ExitOf(WriteFileAtomic(folder_ / "file", std::string(20'000, 'y')).has_value());  // works again
  });
  if (status == kSkip) GTEST_SKIP() << "this machine does not let a test mount a small file system";
  EXPECT_EQ(status, kOk);
}

TEST_F(FileTest, FileSizeLimitOfTheProcessKeepsTheOldFile) {
  ASSERT_TRUE(WriteFileAtomic(folder_ / "file", "old"));
  EXPECT_EQ(kOk, InChild([&] {
    ::signal(SIGXFSZ, SIG_IGN);  // then write() fails instead
    const rlimit limit{.rlim_cur = 4096, .rlim_max = 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 2;
    return ExitOf(!WriteFileAtomic(folder_ / "file", std::string(10'000, 'x')));
  }));
  EXPECT_EQ(ReadFile(folder_ / "file", kMax).value(), "old");
  EXPECT_EQ(Entries(), 1u);
}

TEST(ErrnoErrorTest, CodesAndAdvice) {
  EXPECT_EQ(ErrnoError(ENOSPC, "write", "f").code, ErrorCode::kNoSpace);
  EXPECT_EQ(ErrnoError(EDQUOT, "write", "f").code, ErrorCode::kNoSpace);
  EXPECT_EQ(ErrnoError(EROFS, "write", "f").code, ErrorCode::kPermission);
  EXPECT_EQ(ErrnoError(EACCES, "open", "f").code, ErrorCode::kPermission);
  EXPECT_EQ(ErrnoError(ENOENT, "open", "f").code, ErrorCode::kNotFound);
  EXPECT_EQ(ErrnoError(EIO, "read", "f").code, ErrorCode::kIo);
  EXPECT_THAT(ErrnoError(ENOSPC, "write", "the/file").message, HasSubstr("cannot write the/file"));
}

}  // namespace
}  // namespace inferscale
