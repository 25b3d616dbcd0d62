#include <gtest/gtest.h>

#include <random>

#include "base/limits.h"
#include "base/utf8.h"
#include "memory/fact_file.h"

namespace inferscale {
namespace {

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string WithoutSpaces(std::string_view text) {
  std::string out;
  for (const char c : text)
    if (!IsSpace(c)) out += c;
  return out;
}

// Like a byte-level tokenizer: a token is up to four letters, with the space before them; anything else is one per
// byte.
size_t FourLetters(std::string_view text) {
  size_t tokens = 0;
  for (size_t at = 0; at < text.size(); ++tokens) {
    if (text[at] == ' ' && at + 1 < text.size()) ++at;
    size_t letters = 0;
    while (at < text.size() && letters < 4 && isalnum(static_cast<unsigned char>(text[at]))) ++letters, ++at;
    if (letters == 0) ++at;
  }
  return tokens;
}

// Not additive, as real tokenizers are: "word" has one token more than " word", and joining texts costs one more.
size_t Awkward(std::string_view text) {
  return text.empty() ? 0 : FourLetters(text) + (text[0] != ' ') + text.size() / 97;
}

Fact MakeFact(std::string text, std::string id = "f1") {
  Fact fact;
  fact.id = std::move(id);
  fact.version = 4;
  fact.text = std::move(text);
  fact.date = Date{2023, 5, 8};
  fact.turn = "t7";
  return fact;
}

std::vector<Fact> Split(std::string text, size_t limit,
                        const std::function<size_t(std::string_view)>& count = FourLetters) {
  auto parts = SplitLongFacts({MakeFact(std::move(text))}, count, limit);
  EXPECT_TRUE(parts.has_value()) << (parts ? "" : parts.error().message);
  return parts ? std::move(*parts) : std::vector<Fact>{};
}

// Everything SplitLongFacts promises.
void ExpectSound(const std::string& text, const std::vector<Fact>& parts, size_t limit,
                 const std::function<size_t(std::string_view)>& count) {
  std::string joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    ASSERT_EQ(parts[i].id, "f1#" + std::to_string(i + 1));
    ASSERT_EQ(parts[i].part_of, "f1");
    ASSERT_LE(count(parts[i].text), limit);
    ASSERT_FALSE(parts[i].text.empty());
    ASSERT_TRUE(IsValidUtf8(parts[i].text)) << "a code point was cut";
    joined += parts[i].text;
  }
  ASSERT_EQ(WithoutSpaces(joined), WithoutSpaces(text));
}

TEST(SplitLongFactsTest, ShortFactsStayAsTheyAre) {
  const auto split = SplitLongFacts({MakeFact("a b c", "x"), MakeFact(" d  e\n", "y")}, FourLetters, 5);
  ASSERT_TRUE(split.has_value());
  ASSERT_EQ(split->size(), 2u);
  EXPECT_EQ((*split)[0].id, "x");
  EXPECT_EQ((*split)[1].text, " d  e\n");
  EXPECT_EQ((*split)[1].part_of, "");
}

TEST(SplitLongFactsTest, CutsAtSentences) {
  const auto parts = Split("One two. Three four! Is 3.5 five? Six\nseven… Eight", 8);
  std::vector<std::string> texts;
  for (const Fact& part : parts) texts.push_back(part.text);
  EXPECT_EQ(texts, (std::vector<std::string>{"One two. Three four!", "Is 3.5 five? Six", "seven… Eight"}));
  EXPECT_EQ(parts[1].date, (Date{2023, 5, 8}));
  EXPECT_EQ(parts[1].turn, "t7");
  EXPECT_EQ(parts[1].version, 4u);
  EXPECT_EQ(Split("漢字。仮名。", 10).size(), 2u) << "no space behind a wide stop";
}

TEST(SplitLongFactsTest, ThenAtWordsThenAtCodePoints) {
  EXPECT_EQ(Split("one two tree four five", 2)[1].text, "tree four");
  const std::string words = "abcdefghijklmnop";
  const auto pieces = Split(words, 2);
  ExpectSound(words, pieces, 2, FourLetters);
  EXPECT_GE(pieces.size(), 2u);
  const std::string wide = "漢字仮名交文";  // three bytes, so three tokens each
  const auto code_points = Split(wide, 4);
  ExpectSound(wide, code_points, 4, FourLetters);
  EXPECT_EQ(code_points.size(), 6u);
}

TEST(SplitLongFactsTest, ACharacterAboveTheLimitIsAnError) {
  const auto split = SplitLongFacts({MakeFact("漢字")}, FourLetters, 2);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().code, ErrorCode::kTooLarge);
  EXPECT_NE(split.error().message.find("fact f1: one character has 3 tokens"), std::string::npos)
      << split.error().message;
}

TEST(SplitLongFactsTest, PartIdsMustBeFree) {
  const auto split = SplitLongFacts({MakeFact("one two three"), MakeFact("x", "f1#2")}, FourLetters, 1);
  ASSERT_FALSE(split.has_value());
  EXPECT_EQ(split.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(split.error().message.find("f1#2"), std::string::npos);
}

std::string RandomText(std::mt19937& random) {
  static const std::vector<std::string> kPieces = {"a",     "word", " ",  "  ",  ". ",           ".",     "\n",
                                                   "!\r\n", "漢",   "。", "é",   "longer-words", "😀",     "?",
                                                   " b",    "\t",   "…",  "1.5", "(x)",          "\u2028"};
  std::string text;
  for (size_t i = 1 + random() % 200; i > 0; --i) text += kPieces[random() % kPieces.size()];
  return text;
}

TEST(SplitLongFactsTest, RandomTextsUnderAnAwkwardTokenizer) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 3000; ++trial) {
    const std::string text = RandomText(random);
    const size_t limit = 8 + random() % 40;
    if (Awkward(text) <= limit) continue;
    ASSERT_NO_FATAL_FAILURE(ExpectSound(text, Split(text, limit, Awkward), limit, Awkward)) << "trial " << trial;
  }
}

// The largest text of each kind: the bytes given to the tokenizer stay a small multiple of the text's.
TEST(SplitLongFactsTest, TheLargestTextsAreNotQuadratic) {
  const auto repeated = [](std::string_view unit) {
    std::string text;
    while (text.size() + unit.size() <= limits::kFactBytes) text += unit;
    return text;
  };
  for (const std::string_view unit :
       {"x", " ", "word ", "A short one. ", "a. ", "漢", "x\n", "Words without a stop at the end ", "😀 "}) {
    const std::string text = repeated(unit) + "y";
    size_t bytes = 0;
    const auto count = [&](std::string_view part) {
      bytes += part.size();
      return FourLetters(part);
    };
    const auto parts = Split(text, 200, count);
    ASSERT_NO_FATAL_FAILURE(ExpectSound(text, parts, 200, FourLetters)) << unit;
    EXPECT_LT(bytes, 20 * text.size()) << unit;  // an unbroken word of wide letters is halved eleven times
    EXPECT_LT(parts.size(), 3 + 2 * FourLetters(text) / 100) << unit << ": parts are far from full";
  }
}

}  // namespace
}  // namespace inferscale
