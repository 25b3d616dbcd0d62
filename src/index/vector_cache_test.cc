#include "index/vector_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include "base/file.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr Hash128 kEmbedder{0x0123456789abcdef, 0xfedcba9876543210};
constexpr size_t kHeader = 48, kRow = 16 + 3 * 4 + 8;  // docs/formats/vector_cache.md, three dimensions

class VectorCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("vector_cache_test." + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    path_ = folder_ / "vectors";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::unique_ptr<VectorCache> Open(const Hash128& embedder = kEmbedder, uint32_t dim = 3) {
    auto cache = VectorCache::Open(path_, embedder, dim);
    EXPECT_TRUE(cache) << cache.error().message;
    return std::move(*cache);
  }
  static Hash128 Text(int i) { return HashBytes("text " + std::to_string(i)); }
  static std::vector<float> Vector(int i) { return {static_cast<float>(i), 0.5f, -0.25f}; }
  void Fill(int rows) {
    auto cache = Open();
    for (int i = 0; i < rows; ++i) ASSERT_TRUE(cache->Append(Text(i), Vector(i)));
  }
  std::string Bytes() { return ReadFile(path_, 1 << 20).value(); }
  void SetBytes(std::string_view bytes) { ASSERT_TRUE(WriteFileAtomic(path_, {&bytes, 1}, Durability::kFast)); }

  fs::path folder_, path_;
};

TEST_F(VectorCacheTest, KeepsVectorsAcrossCalls) {
  path_ = folder_ / "made" / "with its folders" / "vectors";
  Fill(3);
  auto cache = Open();
  EXPECT_EQ(cache->size(), 3u);
  for (int i = 0; i < 3; ++i) EXPECT_THAT(cache->Find(Text(i)), ElementsAreArray(Vector(i)));
  EXPECT_THAT(cache->Find(Text(3)), IsEmpty());
  EXPECT_THAT(cache->TakeMessages(), IsEmpty());
  EXPECT_EQ(cache->read_only_reason(), "");
}

TEST_F(VectorCacheTest, ATextThatIsThereChangesNothing) {
  Fill(1);
  auto cache = Open();
  ASSERT_TRUE(cache->Append(Text(0), Vector(7)));
  EXPECT_THAT(cache->Find(Text(0)), ElementsAreArray(Vector(0)));
  EXPECT_EQ(Bytes().size(), kHeader + kRow);
}

TEST_F(VectorCacheTest, RefusesWhatIsNoVector) {
  auto cache = Open();
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& bad : {std::vector<float>{1, 2}, {1, 2, 3, 4}, {}, {1, nan, 3}, {1, 2, inf}}) {
    const Status status = cache->Append(Text(0), bad);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(cache->size(), 0u);
  EXPECT_FALSE(VectorCache::Open("", kEmbedder, 3));
  EXPECT_FALSE(VectorCache::Open(path_, kEmbedder, 0));
  EXPECT_FALSE(VectorCache::Open(path_, kEmbedder, 8193));
}

TEST_F(VectorCacheTest, APipeInItsPlaceIsNotWaitedFor) {
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  auto cache = Open();
  EXPECT_THAT(cache->read_only_reason(), HasSubstr("not a regular file"));
}

TEST_F(VectorCacheTest, AnotherEmbeddersFileIsReplaced) {
  Fill(2);
  auto other = Open({1, 2});
  EXPECT_EQ(other->size(), 0u);
  EXPECT_THAT(other->TakeMessages(), ElementsAre(HasSubstr("another embedder")));
  ASSERT_TRUE(other->Append(Text(0), Vector(9)));
  EXPECT_THAT(Open({1, 2})->Find(Text(0)), ElementsAreArray(Vector(9)));
  EXPECT_EQ(Open({1, 2}, 4)->size(), 0u) << "the same key with another dimension";
}

TEST_F(VectorCacheTest, EveryFlippedByteIsFound) {
  Fill(3);
  const std::string good = Bytes();
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x10);
    SetBytes(bad);
    auto cache = Open();
    EXPECT_EQ(cache->TakeMessages().size(), 1u) << "byte " << at;
    const bool in_header = at < kHeader;
    EXPECT_EQ(cache->size(), in_header ? 0u : 2u) << "byte " << at;
    for (int i = 0; i < 3; ++i) {
      const bool lost = in_header || (at - kHeader) / kRow == static_cast<size_t>(i);
      if (lost)
        EXPECT_THAT(cache->Find(Text(i)), IsEmpty()) << "byte " << at;
      else
        EXPECT_THAT(cache->Find(Text(i)), ElementsAreArray(Vector(i))) << "byte " << at;
    }
    cache = Open();  // told once: the file is good again
    EXPECT_THAT(cache->TakeMessages(), IsEmpty()) << "byte " << at;
  }
}

TEST_F(VectorCacheTest, EveryCutKeepsTheRowsBeforeIt) {
  Fill(3);
  const std::string good = Bytes();
  ASSERT_EQ(good.size(), kHeader + 3 * kRow);
  for (size_t size = 0; size < good.size(); ++size) {
    SetBytes(good.substr(0, size));
    auto cache = Open();
    const size_t rows = size < kHeader ? 0 : (size - kHeader) / kRow;
    EXPECT_EQ(cache->size(), rows) << size << " bytes";
    const bool whole = size == 0 || (size >= kHeader && (size - kHeader) % kRow == 0);
    EXPECT_EQ(cache->TakeMessages().size(), whole ? 0u : 1u) << size << " bytes";
    ASSERT_TRUE(cache->Append(Text(5), Vector(5)));
    EXPECT_EQ(Open()->size(), rows + 1) << size << " bytes";
  }
}

TEST_F(VectorCacheTest, AppendOverwritesATornRowOfAProcessThatDied) {
  Fill(1);
  auto cache = Open();
  SCOPED_TRACE("the part comes after opening");
  const int fd = ::open(path_.c_str(), O_WRONLY | O_APPEND);
  ASSERT_EQ(::write(fd, "torn", 4), 4);
  ::close(fd);
  ASSERT_TRUE(cache->Append(Text(1), Vector(1)));
  EXPECT_EQ(Bytes().size(), kHeader + 2 * kRow);
  EXPECT_EQ(Open()->size(), 2u);
}

TEST_F(VectorCacheTest, TwoUsersOfOneFileKeepBothsRows) {
  auto a = Open(), b = Open();
  for (int i = 0; i < 20; ++i) ASSERT_TRUE((i % 2 ? a : b)->Append(Text(i), Vector(i)));
  EXPECT_EQ(Open()->size(), 20u);
}

TEST_F(VectorCacheTest, WorksInMemoryWhereNothingCanBeWritten) {
  SetBytes("a file where a folder should be");
  const fs::path file = path_;
  path_ = file / "vectors";
  auto cache = Open();
  EXPECT_THAT(cache->read_only_reason(), HasSubstr(file.string()));
  EXPECT_THAT(cache->TakeMessages(), ElementsAre(HasSubstr("in memory only")));
  ASSERT_TRUE(cache->Append(Text(0), Vector(0)));
  EXPECT_THAT(cache->Find(Text(0)), ElementsAreArray(Vector(0)));
  EXPECT_EQ(Open()->size(), 0u);
}

TEST_F(VectorCacheTest, ReadsAFileItMayNotWrite) {
  Fill(2);
  ::chmod(path_.c_str(), 0444);
  ::chmod(folder_.c_str(), 0555);
  const bool is_root = ::geteuid() == 0;  // whom rights do not stop
  if (is_root) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  auto cache = Open();
  const Status appended = cache->Append(Text(2), Vector(2));
  if (is_root) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ::chmod(folder_.c_str(), 0755);
  EXPECT_TRUE(appended);
  EXPECT_EQ(cache->size(), 3u);
  EXPECT_THAT(cache->Find(Text(1)), ElementsAreArray(Vector(1)));
  EXPECT_THAT(cache->read_only_reason(), HasSubstr("rights"));
  EXPECT_EQ(Bytes().size(), kHeader + 2 * kRow) << "nothing was written";
}

// The file of format version 1, byte for byte: a change of the format needs a new version.
TEST_F(VectorCacheTest, GoldenFile) {
  Fill(2);
  const fs::path golden = fs::path(INFERSCALE_TEST_DATA) / "embed" / "vector_cache_v1.vec";
  const auto expected = ReadFile(golden, 1 << 20);
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(Bytes(), *expected);
  path_ = folder_ / "copy";
  SetBytes(*expected);
  EXPECT_EQ(Open()->size(), 2u);
}

}  // namespace
}  // namespace inferscale
