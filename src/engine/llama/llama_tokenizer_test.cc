#include "engine/llama/llama_tokenizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/llama/text_segments.h"
#include "engine/llama/vocab_test_util.h"

namespace inferscale {
namespace {

TEST(TextMatcher, AgreesWithComparingEveryPattern) {
  std::mt19937 random(7);
  const auto word = [&](size_t longest) {
    std::string text;
    for (size_t n = random() % longest + 1; n > 0; --n) text += static_cast<char>('a' + random() % 3);
    return text;
  };
  TextMatcher matcher;
  std::vector<std::string> patterns;
  for (int i = 0; i < 40; ++i) {
    patterns.push_back(word(6));
    matcher.Add(patterns.back(), i);
  }
  size_t found = 0;
  for (int round = 0; round < 200; ++round) {
    const std::string text = word(40);
    for (size_t at = 0; at < text.size(); ++at) {
      size_t longest = 0;
      for (const std::string& p : patterns) {
        if (text.compare(at, p.size(), p) == 0) longest = std::max(longest, p.size());
      }
      const TextMatcher::Match match = matcher.LongestAt(text, at);
      ASSERT_EQ(match.bytes, longest) << text << " at " << at;
      if (longest == 0) continue;
      ++found;
      EXPECT_EQ(patterns[static_cast<size_t>(match.value)], text.substr(at, longest));
    }
  }
  EXPECT_GT(found, 100u);
}

TEST(TextSegments, CutsAtLinesThenWordsThenCharacters) {
  EXPECT_EQ(SegmentEnd("short", 16), 5u);
  EXPECT_EQ(SegmentEnd("one two th\nfour five six", 16), 11u);  // behind the line break
  EXPECT_EQ(SegmentEnd("one two three four five", 16), 13u);    // before " four"
  EXPECT_EQ(SegmentEnd(std::string(40, 'a'), 16), 16u);
  const std::string umlauts = "aääääääääääääääääää";  // characters begin at odd offsets
  EXPECT_EQ(SegmentEnd(umlauts, 16), 15u);
  EXPECT_EQ(SegmentEnd(std::string(40, '\x80'), 16), 16u);  // ill-formed: still advances
}

class SmallVocab : public testing::Test {
 protected:
  const TestVocab vocab_ = SmallSentencePiece();
  const LlamaTokenizer& tokenizer() const { return *vocab_.tokenizer; }

  std::vector<std::string> Pieces(const Tokens& tokens) const {
    std::vector<std::string> pieces;
    for (const TokenId token : tokens) pieces.push_back(tokenizer().Piece(token));
    return pieces;
  }
  void ExpectHarmless(const std::string& text) const {
    const Tokens tokens = tokenizer().Text(text);
    for (const TokenId token : tokens) EXPECT_FALSE(tokenizer().IsControl(token)) << tokenizer().Piece(token);
    EXPECT_EQ(Spell(tokenizer(), tokens), text);
  }
};

using Strings = std::vector<std::string>;

TEST_F(SmallVocab, HasNoDummySpace) {
  ASSERT_EQ(Spell(tokenizer(), NativeTokens(vocab_, "hello", false)), " hello");  // llama.cpp's own adds one
  EXPECT_EQ(Pieces(tokenizer().Text("hello")), Strings{"hello"});
  EXPECT_EQ(Pieces(tokenizer().Text(" hello")), Strings{" hello"});
  EXPECT_EQ(Pieces(tokenizer().Text("\nhello")), (Strings{"\n", "hello"}));
  EXPECT_TRUE(tokenizer().Text("").empty());
  EXPECT_EQ(Pieces(tokenizer().Markup("<s>hello</s>hello")), (Strings{"<s>", "hello", "</s>", "hello"}));
}

TEST_F(SmallVocab, MergingCannotMakeAControlToken) {
  const Tokens native = NativeTokens(vocab_, "</s>", false);  // parsing is off, and yet:
  ASSERT_TRUE(std::any_of(native.begin(), native.end(), [&](TokenId t) { return tokenizer().IsControl(t); }));
  ExpectHarmless("</s>");
  ExpectHarmless("hello</s></s>hello");
  ExpectHarmless("<s></s><unk>");
  ExpectHarmless("  x");
}

TEST_F(SmallVocab, SpellingsThatNoPatternCoversAreCutAfterwards) {
  const std::string mark = "\xE2\x96\x81";
  const std::string mixed = mark + " x";  // to the model: "▁▁x", a control token; to the patterns: neither spelling
  const Tokens native = NativeTokens(vocab_, "h" + mixed, false);
  ASSERT_TRUE(std::any_of(native.begin(), native.end(), [&](TokenId t) { return tokenizer().IsControl(t); }));
  const Tokens tokens = tokenizer().Text(mixed + mixed);
  for (const TokenId token : tokens) EXPECT_FALSE(tokenizer().IsControl(token)) << tokenizer().Piece(token);
  EXPECT_EQ(Spell(tokenizer(), tokens), "  x  x");  // SentencePiece has one token for the mark and the space
}

TEST_F(SmallVocab, UserDefinedTokensThatLookLikeMarkupAreCut) {
  EXPECT_TRUE(tokenizer().IsControl(tokenizer().Markup("[INST]").at(0)));
  ExpectHarmless("[INST] hello [/INST]");
  ExpectHarmless("a\thello");  // a one-character user-defined token is used, and adds no space behind it
  ExpectHarmless("haha hello");
}

TEST_F(SmallVocab, MarkupParsesSpecialsAndOnlyThere) {
  EXPECT_EQ(Pieces(tokenizer().Markup("[INST] hello [/INST]")), (Strings{"[INST]", " hello", " ", "[/INST]"}));
  EXPECT_EQ(tokenizer().bos_text(), "<s>");
  EXPECT_EQ(tokenizer().eos_spelling(), "</s>");
  EXPECT_TRUE(tokenizer().IsEndOfGeneration(tokenizer().Markup("</s>").at(0)));
}

TEST_F(SmallVocab, IdsOutsideTheVocabularyAreHarmless) {
  for (const TokenId token : {-1, tokenizer().vocabulary_size(), 1 << 30}) {
    EXPECT_EQ(tokenizer().Piece(token), "");
    EXPECT_TRUE(tokenizer().IsControl(token));
    EXPECT_FALSE(tokenizer().IsEndOfGeneration(token));
  }
}

TEST_F(SmallVocab, RandomMixturesSpellThemselves) {
  const Strings parts = {"</s>", "<s>", "[INST]", "  x", "\t", "hello", " ",   "\n",
                         "<",    "/",   "s>",     "ö",   "x",  "<unk>", "haha"};
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) text += parts[random() % parts.size()];
    ExpectHarmless(text);
  }
}

}  // namespace
}  // namespace inferscale
