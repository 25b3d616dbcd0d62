#include "base/hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

namespace inferscale {
namespace {

TEST(HashTest, HexRoundTrips) {
  const Hash128 h{0x0123456789ABCDEFull, 0xFEDCBA9876543210ull};
  EXPECT_EQ(h.Hex(), "0123456789abcdeffedcba9876543210");
  EXPECT_EQ(Hash128::FromHex(h.Hex()), h);
  EXPECT_EQ(Hash128::FromHex(Hash128().Hex()), Hash128());
}

TEST(HashTest, FromHexRefusesEverythingElse) {
  const std::string good(32, 'a');
  EXPECT_TRUE(Hash128::FromHex(good));
  for (const std::string& bad : {std::string(), std::string(31, 'a'), std::string(33, 'a'), std::string(32, 'A'),
                                 std::string(31, 'a') + "g", " " + std::string(31, 'a'), "0x" + std::string(30, 'a')}) {
    EXPECT_FALSE(Hash128::FromHex(bad)) << bad;
  }
}

TEST(HashTest, KnownDigestsNeverChange) {
  // Ids in files and caches depend on them. The empty input's are XXH3's published test values.
  EXPECT_EQ(HashBytes("").Hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(Checksum64("", 0), 0x2D06800538D394C2ull);
}

TEST(HashTest, EveryByteCounts) {
  std::string bytes(1000, 'x');
  std::set<Hash128> digests = {HashBytes(bytes)};
  std::set<uint64_t> checksums = {Checksum64(bytes.data(), bytes.size())};
  for (char& byte : bytes) {
    byte ^= 1;
    digests.insert(HashBytes(bytes));
    checksums.insert(Checksum64(bytes.data(), bytes.size()));
    byte ^= 1;
  }
  EXPECT_EQ(digests.size(), 1001u);
  EXPECT_EQ(checksums.size(), 1001u);
}

TEST(HasherTest, StreamEqualsOneCall) {
  const std::string bytes = "the quick brown fox";
  Hasher hasher;
  hasher.Raw(bytes.data(), 4).Raw(bytes.data() + 4, bytes.size() - 4);
  EXPECT_EQ(hasher.Finish(), HashBytes(bytes));
  EXPECT_EQ(hasher.Finish(), HashBytes(bytes));  // does not end the stream
  hasher.U32(1);
  EXPECT_NE(hasher.Finish(), HashBytes(bytes));
}

Hash128 DigestOf(const std::vector<std::string>& texts) {
  Hasher hasher;
  for (const std::string& text : texts) hasher.Str(text);
  return hasher.Finish();
}

TEST(HasherTest, FieldsDoNotRunIntoEachOther) {
  EXPECT_NE(DigestOf({"ab", "c"}), DigestOf({"a", "bc"}));
  EXPECT_NE(DigestOf({"ab"}), DigestOf({"ab", ""}));
  EXPECT_NE(DigestOf({"a", "b"}), DigestOf({"b", "a"}));
  const std::vector<int32_t> ids = {1, 2, 3};
  Hasher split, whole;
  split.Ids(std::span(ids).first(1)).Ids(std::span(ids).subspan(1));
  whole.Ids(ids);
  EXPECT_NE(split.Finish(), whole.Finish());
}

TEST(HasherTest, MoveKeepsTheStream) {
  Hasher first;
  first.Str("a");
  Hasher second = std::move(first);
  second.Str("b");
  EXPECT_EQ(second.Finish(), DigestOf({"a", "b"}));
}

}  // namespace
}  // namespace inferscale
