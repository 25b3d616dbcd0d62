#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace inferscale {
namespace {

// UTF-8 by its definition, for any number (also ones that are no code points).
std::string Encode(uint32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | (c >> 6)), tail(0)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | (c >> 12)), tail(6), tail(0)};
  return {static_cast<char>(0xF0 | (c >> 18)), tail(12), tail(6), tail(0)};
}

TEST(Utf8Test, EveryCodePointIsValidAndSurrogatesAreNot) {
  for (uint32_t c = 0; c <= 0x10FFFF + 0x100; ++c) {
    const std::string text = Encode(c);
    const bool valid = c <= 0x10FFFF && !(c >= 0xD800 && c <= 0xDFFF);
    ASSERT_EQ(IsValidUtf8(text), valid) << std::hex << c;
    if (valid) {
      ASSERT_EQ(CodePointBytes(text, 0), text.size());
    }
  }
}

TEST(Utf8Test, EveryTwoBytesAgreeWithADecoder) {
  // A pair is valid when it is two ASCII characters or the encoding of one number of 0x80 to 0x7FF.
  for (uint32_t a = 0; a < 256; ++a) {
    for (uint32_t b = 0; b < 256; ++b) {
      const std::string text = {static_cast<char>(a), static_cast<char>(b)};
      const bool two_ascii = a < 0x80 && b < 0x80;
      const uint32_t c = ((a & 0x1F) << 6) | (b & 0x3F);
      ASSERT_EQ(IsValidUtf8(text), two_ascii || (c >= 0x80 && Encode(c) == text)) << a << " " << b;
    }
  }
}

TEST(Utf8Test, SaysWhereTheFirstFaultIs) {
  EXPECT_EQ(FirstInvalidUtf8(""), std::string_view::npos);
  EXPECT_EQ(FirstInvalidUtf8(std::string_view("\0a", 2)), std::string_view::npos);
  EXPECT_EQ(FirstInvalidUtf8("\xC0\x80"), 0u);              // overlong NUL
  EXPECT_EQ(FirstInvalidUtf8("ab\xE0\x9F\xBF"), 2u);        // overlong
  EXPECT_EQ(FirstInvalidUtf8("ä\xF0\x8F\xBF\xBF"), 2u);     // overlong
  EXPECT_EQ(FirstInvalidUtf8("ä€\xF4\x90\x80\x80"), 5u);    // beyond U+10FFFF
  EXPECT_EQ(FirstInvalidUtf8("x\x80"), 1u);                 // a tail alone
  EXPECT_EQ(FirstInvalidUtf8("ok \xED\xA0\x80"), 3u);       // a surrogate
  for (const std::string whole : {"ä", "€", "😀"}) {
    for (size_t keep = 1; keep < whole.size(); ++keep) {
      EXPECT_EQ(FirstInvalidUtf8("ab" + whole.substr(0, keep)), 2u);        // cut at the end
      EXPECT_EQ(FirstInvalidUtf8("ab" + whole.substr(0, keep) + "cd"), 2u);  // and inside
    }
  }
}

TEST(Utf8Test, FloorNeverCutsACodePoint) {
  const std::string text = "aä€😀z";  // starts at 0, 1, 3, 6, 10
  const size_t want[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
  for (size_t at = 0; at <= text.size(); ++at) EXPECT_EQ(FloorToCodePoint(text, at), want[at]) << at;
  EXPECT_EQ(FloorToCodePoint(text, 1000), text.size());
  EXPECT_EQ(FloorToCodePoint("", 0), 0u);
}

}  // namespace
}  // namespace inferscale
