#include "index/words.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <thread>

#include "base/limits.h"
#include "base/utf8.h"
#include "index/text_fold.h"

namespace inferscale {
namespace {

using Terms = std::vector<std::string>;

Terms TermsOf(std::string_view text) {
  const auto split = SplitWords(text);
  EXPECT_TRUE(split) << (split ? "" : split.error().message);
  Terms terms;
  if (split)
    for (const TermCount& term : split->terms) terms.push_back(term.term);
  return terms;
}

TEST(FoldTextTest, CaseWidthLigaturesAndApostrophes) {
  EXPECT_EQ(FoldText("ＦＵＬＬ Straße"), "full strasse");
  EXPECT_EQ(FoldText("ﬁne Ångström"), FoldText("FINE A\u030Angstro\u0308m"));
  EXPECT_EQ(FoldText("It’s"), "it's");
  EXPECT_EQ(FoldText("ΣΊΣΥΦΟΣ"), FoldText("σίσυφος"));
  EXPECT_EQ(FoldText(""), "");
  EXPECT_EQ(FoldText("a\xC3(\xFF"), "a\uFFFD(\uFFFD");
  EXPECT_EQ(FoldText(std::string("a\0B", 3)), std::string("a\0b", 3));
  EXPECT_EQ(FoldText("\uFDFA").size(), 33u);  // the character that grows most
}

TEST(WordsTest, EnglishWithCountsAndLength) {
  const auto split = SplitWords("The cat saw THE other cat: a Cat!");
  ASSERT_TRUE(split);
  EXPECT_EQ(split->terms, (std::vector<TermCount>{{"the", 2}, {"cat", 3}, {"saw", 1}, {"other", 1}, {"a", 1}}));
  EXPECT_EQ(split->words, 8u);
  EXPECT_EQ(TermsOf("Caroline's don't"), (Terms{"caroline's", "don't"}));
}

TEST(WordsTest, NumbersAndIdentifiersAreWhole) {
  EXPECT_EQ(TermsOf("run 1: 84.2 ms, 3,000 items, 192.168.0.1, v1.2.3"),
            (Terms{"run", "1", "84.2", "ms", "3,000", "items", "192.168.0.1", "v1.2.3"}));
  EXPECT_EQ(TermsOf("max_size example.com ABC123 50%"), (Terms{"max_size", "example.com", "abc123", "50"}));
  EXPECT_EQ(TermsOf("(8 May 2023) 2023-05-08"), (Terms{"8", "may", "2023", "05", "08"}));
}

TEST(WordsTest, OtherScripts) {
  EXPECT_EQ(TermsOf("我喜欢机器学习"), (Terms{"我", "喜欢", "机器", "学习"}));
  const Terms japanese = TermsOf("東京に住んでいます");  // how the verb is divided is up to ICU's dictionary
  EXPECT_EQ(Terms(japanese.begin(), japanese.begin() + 2), (Terms{"東京", "に"}));
  EXPECT_EQ(TermsOf("ฉันรักภาษาไทย"), (Terms{"ฉัน", "รัก", "ภาษา", "ไทย"}));
  EXPECT_EQ(TermsOf("저는 고양이를"), (Terms{"저는", "고양이를"}));
  EXPECT_EQ(TermsOf("أنا أحب القهوة"), (Terms{"أنا", "أحب", "القهوة"}));
  EXPECT_EQ(TermsOf("नमस्ते दुनिया"), (Terms{"नमस्ते", "दुनिया"}));
  EXPECT_EQ(TermsOf("Привет, МИР"), (Terms{"привет", "мир"}));
}

TEST(WordsTest, EmojiAreTermsAndPunctuationIsNot) {
  EXPECT_EQ(TermsOf("party 🎉🎉 👨‍👩‍👧 -- ... ___ \t\n\u2003!?"),
            (Terms{"party", "🎉", "👨", "👩", "👧"}));
  EXPECT_EQ(TermsOf(""), Terms());
  EXPECT_EQ(TermsOf(" \n"), Terms());
}

TEST(WordsTest, LongWordsAreCutAtACharacter) {
  const std::string umlauts = [] {
    std::string word = "x";  // so that the limit falls into a character
    for (int i = 0; i < 1000; ++i) word += "ü";
    return word;
  }();
  const Terms terms = TermsOf(umlauts);
  ASSERT_EQ(terms.size(), 1u);
  EXPECT_EQ(terms[0], umlauts.substr(0, limits::kTermBytes - 1));
  EXPECT_EQ(TermsOf(std::string(100'000, 'a')), Terms{std::string(limits::kTermBytes, 'a')});
}

TEST(WordsTest, Limits) {
  const auto too_long = SplitWords(std::string(limits::kQuestionBytes + 1, 'a'));
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().code, ErrorCode::kTooLarge);
  std::string many;
  for (size_t i = 0; i <= limits::kTermsPerFact; ++i) many += std::to_string(i) + " ";
  ASSERT_LE(many.size(), limits::kQuestionBytes);
  const auto too_many = SplitWords(many);
  ASSERT_FALSE(too_many);
  EXPECT_EQ(too_many.error().code, ErrorCode::kTooLarge);
  many.resize(many.rfind(' ', many.size() - 2) + 1);  // one less
  EXPECT_EQ(TermsOf(many).size(), limits::kTermsPerFact);
}

TEST(WordsTest, QueryTermsAreTheFirstDistinctOnes) {
  EXPECT_EQ(*QueryTerms("Where does Anna live? where?"), (Terms{"where", "does", "anna", "live"}));
  std::string many;
  for (size_t i = 0; i < 2 * limits::kTermsPerQuery; ++i) many += "w" + std::to_string(i) + " ";
  const auto terms = QueryTerms(many);
  ASSERT_TRUE(terms);
  ASSERT_EQ(terms->size(), limits::kTermsPerQuery);
  EXPECT_EQ(terms->back(), "w" + std::to_string(limits::kTermsPerQuery - 1));
}

// Whatever the bytes: terms are valid, distinct, within their limit, and counts add up.
TEST(WordsTest, AnyBytes) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    const size_t size = random() % 80;
    for (size_t i = 0; i < size; ++i) {
      switch (random() % 4) {
        case 0:
          text += static_cast<char>(random());
          break;
        case 1:
          text += static_cast<char>('a' + random() % 26);
          break;
        case 2:
          text += "我們のไทย🎉é’ \0\x80"[random() % 26];
          break;
        default:
          text += "字";
          break;
      }
    }
    const auto split = SplitWords(text);
    ASSERT_TRUE(split);
    uint32_t words = 0;
    std::map<std::string, int> seen;
    for (const TermCount& term : split->terms) {
      ASSERT_TRUE(IsValidUtf8(term.term));
      ASSERT_TRUE(!term.term.empty() && term.term.size() <= limits::kTermBytes);
      ASSERT_EQ(seen[term.term]++, 0);
      words += term.count;
    }
    ASSERT_EQ(words, split->words);
    Terms terms;
    for (const TermCount& term : split->terms) terms.push_back(term.term);
    ASSERT_EQ(*QueryTerms(text), terms);
  }
}

TEST(WordsTest, ThreadsDoNotDisturbEachOther) {
  const std::string a = "one two three 我喜欢机器学习 four", b = "ฉันรักภาษาไทย five six";
  const auto want_a = *SplitWords(a), want_b = *SplitWords(b);
  std::vector<int> same(4, 0);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < same.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto got = SplitWords(t % 2 == 0 ? a : b);
        same[t] += got && got->terms == (t % 2 == 0 ? want_a : want_b).terms;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(same, (std::vector<int>(4, 200)));
}

TEST(WordsTest, VersionNamesIcu) {
  EXPECT_NE(WordSplitterVersion().find(" ICU "), std::string::npos);
  EXPECT_EQ(WordSplitterVersion(), WordSplitterVersion());
}

}  // namespace
}  // namespace inferscale
