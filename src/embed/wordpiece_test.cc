#include "embed/wordpiece.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "embed/bert_test_util.h"
#include "embed/unicode.h"

namespace inferscale {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class WordPieceTest : public ::testing::Test {
 protected:
  WordPieceTest() : pieces_(testing::SmallVocabulary()), tokenizer_(WordPiece::Make(pieces_).value()) {}

  // As pieces, [CLS] and [SEP] left out.
  std::vector<std::string> Pieces(std::string_view text) {
    std::vector<std::string> out;
    for (const int32_t id : tokenizer_.Encode(text, SIZE_MAX)) out.push_back(pieces_[static_cast<size_t>(id)]);
    EXPECT_EQ(out.front(), "[CLS]");
    EXPECT_EQ(out.back(), "[SEP]");
    return {out.begin() + 1, out.end() - 1};
  }

  // Naive oracle: try every prefix of what is left of a word, the longest first.
  std::vector<std::string> NaiveWord(std::string word) {
    std::vector<std::string> out;
    for (std::string mark; !word.empty(); mark = "##") {
      size_t size = word.size();
      while (size > 0 && std::find(pieces_.begin(), pieces_.end(), mark + word.substr(0, size)) == pieces_.end())
        --size;
      if (size == 0) return {"[UNK]"};
      out.push_back(mark + word.substr(0, size));
      word.erase(0, size);
    }
    return out;
  }

  std::vector<std::string> pieces_;
  WordPiece tokenizer_;
};

TEST_F(WordPieceTest, LongestPieceFirst) {
  EXPECT_THAT(Pieces("The CATS."), ElementsAre("the", "cat", "##s", "."));
  EXPECT_THAT(Pieces("bats"), ElementsAre("b", "##at", "##s"));
  EXPECT_THAT(Pieces("aq cat"), ElementsAre("[UNK]", "cat"));
  EXPECT_THAT(Pieces(""), ElementsAre());
}

TEST_F(WordPieceTest, RandomWordsEqualTheNaiveOracle) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string word;
    for (size_t n = 1 + random() % 12; n > 0; --n) word += "thecatsunq"[random() % 10];
    EXPECT_EQ(Pieces(word), NaiveWord(word)) << word;
  }
}

TEST_F(WordPieceTest, CleansSpacesAccentsAndControls) {
  EXPECT_THAT(Pieces("c\u00E1t\tca\u0301t\u00A0c\u200Bat\ncat" + std::string(1, '\0') + "s"),
              ElementsAre("cat", "cat", "cat", "cat", "##s"));
  EXPECT_THAT(Pieces("cat\u4E2Dcat"), ElementsAre("cat", "[UNK]", "cat")) << "an ideograph stands alone";
  EXPECT_THAT(Pieces("bad \xFF\xFE cat"), ElementsAre("b", "##a", "##d", "cat")) << "ill-formed bytes are dropped";
}

TEST_F(WordPieceTest, WordsOverAHundredCharactersAreUnknown) {
  EXPECT_EQ(Pieces(std::string(100, 'a')).size(), 100u);
  EXPECT_THAT(Pieces(std::string(101, 'a')), ElementsAre("[UNK]"));
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\u00E9";
  EXPECT_EQ(Pieces(accents).size(), 100u) << "characters are counted without accents";
}

TEST_F(WordPieceTest, SpecialTokensInTheTextAreTheirIds) {
  EXPECT_THAT(Pieces("a[SEP]b"), ElementsAre("a", "[SEP]", "b"));
  EXPECT_THAT(Pieces("[MASK][CLS]"), ElementsAre("[MASK]", "[CLS]"));
  EXPECT_THAT(Pieces("[mask"), ElementsAre("[UNK]", "m", "##a", "##s", "##k")) << "case counts, and so does the end";
}

TEST_F(WordPieceTest, CutsAndKeepsSep) {
  const std::vector<int32_t> whole = tokenizer_.Encode("the cats. the cats. [MASK] the cat", SIZE_MAX);
  for (size_t limit = 2; limit <= whole.size() + 2; ++limit) {
    std::vector<int32_t> expected(whole.begin(), whole.end() - 1);
    expected.resize(std::min(expected.size(), limit - 1));
    expected.push_back(whole.back());
    EXPECT_EQ(tokenizer_.Encode("the cats. the cats. [MASK] the cat", limit), expected) << limit;
  }
}

TEST_F(WordPieceTest, RefusesOtherVocabularies) {
  const auto error = [](std::vector<std::string> pieces) {
    const auto made = WordPiece::Make(pieces);
    EXPECT_FALSE(made);
    return made ? "" : made.error().message;
  };
  std::vector<std::string> pieces = pieces_;
  pieces[3] = "<s>";
  EXPECT_THAT(error(pieces), HasSubstr("[SEP]"));
  pieces = pieces_;
  pieces.push_back("cat");
  EXPECT_THAT(error(pieces), HasSubstr("\"cat\""));
  EXPECT_THAT(error({}), HasSubstr("not BERT's"));
}

TEST(UnicodeTest, Utf8RoundTrip) {
  for (char32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 37) {
    if (c >= 0xD800 && c < 0xE000) continue;
    std::string bytes;
    unicode::AppendUtf8(c, bytes);
    EXPECT_EQ(unicode::DecodeUtf8(bytes), std::u32string(1, c));
  }
  EXPECT_EQ(unicode::DecodeUtf8("a\x80\xE2\x82z\xF5"), U"a\uFFFD\uFFFD\uFFFDz\uFFFD");
}

TEST(UnicodeTest, ClassesAreThoseOfUnicode8) {
  EXPECT_TRUE(unicode::IsPunctuation(0x0964));   // danda
  EXPECT_TRUE(unicode::IsPunctuation(0x166D));   // punctuation until 12.0
  EXPECT_FALSE(unicode::IsPunctuation(0x2E52));  // of 14.0
  EXPECT_TRUE(unicode::IsNonspacingMark(0x0301));
  EXPECT_FALSE(unicode::IsNonspacingMark(0x1AC1));  // of 14.0
  EXPECT_FALSE(unicode::IsNonspacingMark(0x1885));  // a mark since 9.0
  EXPECT_FALSE(unicode::IsControl(0x0378)) << "unassigned characters are kept";
  EXPECT_EQ(unicode::CanonicalDecomposition(U"\uAC01\u00E9"), U"\u1100\u1161\u11A8e\u0301");
}

}  // namespace
}  // namespace inferscale
