#include "base/dir_lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <optional>

#include "base/file.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DirLockTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "inferscale_dir_lock.XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Starts a process that takes the lock, tells so, and waits to be killed.
  pid_t StartOwner(std::string_view command) {
    int pipe_fds[2];
    EXPECT_EQ(::pipe(pipe_fds), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      const Result<DirLock> lock = DirLock::Acquire(folder_, command);
      const char told = lock ? '+' : '-';
      if (::write(pipe_fds[1], &told, 1) != 1) ::_exit(1);
      for (;;) ::pause();
    }
    char told = 0;
    EXPECT_EQ(::read(pipe_fds[0], &told, 1), 1);
    EXPECT_EQ(told, '+');
    ::close(pipe_fds[0]);
    ::close(pipe_fds[1]);
    return pid;
  }
  static void Kill9(pid_t pid) {
    ASSERT_EQ(::kill(pid, SIGKILL), 0);
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  }

  fs::path folder_;
};

TEST_F(DirLockTest, ASecondProcessIsToldWhoHasItAtOnce) {
  const pid_t owner = StartOwner("inferscale serve");
  const auto start = std::chrono::steady_clock::now();
  const Result<DirLock> second = DirLock::Acquire(folder_, "inferscale ask");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::kInUse);
  EXPECT_THAT(second.error().message,
              HasSubstr(folder_.string() + " is in use by pid " + std::to_string(owner) + " (inferscale serve)"));
  Kill9(owner);
}

TEST_F(DirLockTest, AKilledOwnerLeavesTheFolderFree) {
  for (int round = 0; round < 5; ++round) {
    Kill9(StartOwner("inferscale serve"));
    const Result<DirLock> lock = DirLock::Acquire(folder_, "inferscale ask");
    ASSERT_TRUE(lock) << lock.error().message;
    EXPECT_EQ(ReadFile(folder_ / "lock", 1000).value(), std::to_string(::getpid()) + "\ninferscale ask\n");
  }
}

TEST_F(DirLockTest, OneProcessTakesItOnceAtATime) {
  std::optional<DirLock> first = DirLock::Acquire(folder_, "one").value();
  EXPECT_FALSE(DirLock::Acquire(folder_, "two"));
  DirLock moved = std::move(*first);
  first.reset();
  EXPECT_FALSE(DirLock::Acquire(folder_, "two")) << "moved, not released";
  { const DirLock last = std::move(moved); }
  EXPECT_TRUE(DirLock::Acquire(folder_, "two"));
}

TEST_F(DirLockTest, AnOwnerThatHasNotWrittenItsNameYet) {
  const pid_t owner = StartOwner("inferscale serve");
  std::ofstream(folder_ / "lock", std::ios::trunc);
  const Result<DirLock> second = DirLock::Acquire(folder_, "inferscale ask");
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error().message, HasSubstr("in use by another process"));
  Kill9(owner);
}

TEST_F(DirLockTest, ACommandIsOneShortLine) {
  const DirLock lock = DirLock::Acquire(folder_, "a\nb" + std::string(1000, 'x')).value();
  const std::string text = ReadFile(folder_ / "lock", 1000).value();
  EXPECT_THAT(text, HasSubstr("\na bxxx"));
  EXPECT_LE(text.size(), 220u);
}

TEST_F(DirLockTest, WhatALinkLeadsToIsLeftAlone) {
  const fs::path lock = folder_ / "lock", other = folder_ / "other";
  std::ofstream(other) << "precious";
  const auto refused = [&] {
    const Result<DirLock> taken = DirLock::Acquire(folder_, "x");
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code, ErrorCode::kPermission);
    EXPECT_THAT(taken.error().message, HasSubstr("is a link"));
    EXPECT_EQ(ReadFile(other, 100).value(), "precious");
    fs::remove(lock);
  };
  fs::create_symlink(other, lock);
  refused();
  fs::create_hard_link(other, lock);
  refused();
  fs::create_symlink(folder_ / "none", lock);
  refused();
  EXPECT_FALSE(fs::exists(folder_ / "none"));
  EXPECT_TRUE(DirLock::Acquire(folder_, "x"));
}

TEST_F(DirLockTest, AFolderThatIsNotThere) {
  const Result<DirLock> lock = DirLock::Acquire(folder_ / "none", "x");
  ASSERT_FALSE(lock);
  EXPECT_EQ(lock.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace inferscale
