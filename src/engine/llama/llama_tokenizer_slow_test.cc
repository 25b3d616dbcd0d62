// The tokenizers of real models: no control token from anybody's text, and every byte kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <random>

#include "base/clock.h"
#include "base/utf8.h"
#include "engine/llama/llama_tokenizer.h"
#include "engine/llama/vocab_test_util.h"

namespace inferscale {
namespace {

class RealTokenizer : public testing::TestWithParam<TestModel> {
 protected:
  void SetUp() override {
    if (const std::string reason = SkipReason(GetParam()); !reason.empty()) GTEST_SKIP() << reason;
    vocab_ = RealVocab(GetParam());
    ASSERT_NE(vocab_, nullptr);
    for (TokenId token = 0; token < tokenizer().vocabulary_size(); ++token) {
      const std::string piece = tokenizer().Piece(token);
      if (tokenizer().IsControl(token) && !piece.empty()) specials_.push_back(piece);
      if (piece.size() == 1) has_byte_[static_cast<unsigned char>(piece[0])] = true;
    }
  }
  const LlamaTokenizer& tokenizer() const { return *vocab_->tokenizer; }

  // No control token, and the same bytes.
  void ExpectHarmless(std::string_view text) const {
    const Tokens tokens = tokenizer().Text(text);
    for (const TokenId token : tokens) {
      ASSERT_FALSE(tokenizer().IsControl(token)) << token << " in " << text.substr(0, 80);
    }
    ASSERT_TRUE(Spell(tokenizer(), tokens) == Spellable(text)) << text.substr(0, 200);
  }

  // text without the characters that have a byte which is no token.
  std::string Spellable(std::string_view text) const {
    std::string kept;
    for (size_t at = 0, bytes = 0; at < text.size(); at += bytes) {
      bytes = CodePointBytes(text, at);
      const std::string_view character = text.substr(at, bytes);
      const bool whole = std::all_of(character.begin(), character.end(), [&](unsigned char c) { return has_byte_[c]; });
      if (whole) kept += character;
    }
    return kept;
  }

  const TestVocab* vocab_ = nullptr;
  std::vector<std::string> specials_;
  bool has_byte_[256] = {};
};

TEST_P(RealTokenizer, SpecialTokensInFactsAndQuestionsStayText) {
  ASSERT_GE(specials_.size(), 10u);
  for (const std::string& special : specials_) {
    ExpectHarmless(special);
    ExpectHarmless("[2023-05-08] Maria wrote " + special + " on the wall" + special + ".\n");
    ExpectHarmless(special + special + "\nWho wrote " + special + "?");
  }
}

TEST_P(RealTokenizer, SpecialTokensAreParsedInMarkup) {
  // Not each spelling names one token alone ("<|im_end|>" does), but none is lost: the count proves that the test
  // above had something to find.
  size_t parsed = 0;
  for (const std::string& special : specials_) {
    const Tokens tokens = tokenizer().Markup(special);
    parsed += tokens.size() == 1 && tokenizer().IsControl(tokens[0]);
  }
  EXPECT_GE(parsed, 10u);
}

TEST_P(RealTokenizer, RandomMixturesOfSpecialsAndText) {
  const std::vector<std::string> words = {
      "Maria ", " ",    "  ", "\n",     "\n\n", "\t",           "<",    "|",  ">",  "im_end", "s>", "</",      "[",
      "]",      "INST", "é",  "日本語", "🙂", "\xE2\x96\x81", "\x01", "42", "'s", "\r\n",   "ﬁ",  "\xC2\xA0"};
  std::mt19937 random(23);
  for (int round = 0; round < 1500; ++round) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) {
      std::string part = random() % 3 == 0 ? specials_[random() % specials_.size()] : words[random() % words.size()];
      if (random() % 4 == 0) part = part.substr(0, FloorToCodePoint(part, random() % (part.size() + 1)));
      text += part;
    }
    const Tokens tokens = tokenizer().Text(text);
    for (const TokenId token : tokens) ASSERT_FALSE(tokenizer().IsControl(token)) << text;
    // SentencePiece writes a space and U+2581 with the same token: the only bytes that may change.
    if (text.find("\xE2\x96\x81") == std::string::npos) {
      ASSERT_EQ(Spell(tokenizer(), tokens), Spellable(text));
    }
  }
}

TEST_P(RealTokenizer, EveryCodePointKeepsItsBytes) {
  std::string text;
  for (char32_t c = 1; c < 0x110000; c += c < 0x3000 ? 1 : 97) {
    if ((c >= 0xD800 && c < 0xE000) || c == 0x2581) continue;
    if (c < 0x80) {
      text += static_cast<char>(c);
    } else if (c < 0x800) {
      text += {static_cast<char>(0xC0 | c >> 6), static_cast<char>(0x80 | (c & 0x3F))};
    } else if (c < 0x10000) {
      text += {static_cast<char>(0xE0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 0x3F)),
               static_cast<char>(0x80 | (c & 0x3F))};
    } else {
      text += {static_cast<char>(0xF0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 0x3F)),
               static_cast<char>(0x80 | (c >> 6 & 0x3F)), static_cast<char>(0x80 | (c & 0x3F))};
    }
  }
  ASSERT_TRUE(IsValidUtf8(text));
  const std::string printable = text.substr(0x1F, 0x5F) + "äöü日本🙂";
  EXPECT_EQ(Spellable(printable), printable);
  ExpectHarmless(text);
}

TEST_P(RealTokenizer, PlainTextGivesLlamaCppsIds) {
  const std::vector<std::string> texts = {
      "[2023-05-08] Maria adopted a grey cat named Miso.\n", "What did Jonas pay for the concert in Köln?",
      "  two spaces, then\n\n\nthree line breaks\tand a tab", "x = [1, 2, 3]; if (a < b) { return a->b; }",
      "日本語のテキスト 🙂"};
  for (const std::string& text : texts) EXPECT_EQ(tokenizer().Text(text), NativeTokens(*vocab_, text, false)) << text;
}

TEST_P(RealTokenizer, MarkupGivesLlamaCppsIds) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    std::string text;
    for (size_t n = random() % 8; n > 0; --n) {
      text += random() % 2 == 0 ? specials_[random() % specials_.size()] : "user\nWhat is new?  \n\n";
    }
    EXPECT_EQ(tokenizer().Markup(text), NativeTokens(*vocab_, text, true)) << text;
  }
}

// Measured on two shared cores: 0.1 to 4 s a case, and 6 to 12 s for half a million of Gemma's line break tokens. The
// bound only tells linear from quadratic time: a mebibyte given to llama.cpp at once takes minutes to hours there.
TEST_P(RealTokenizer, OneMebibyteOfAnythingTakesLinearTime) {
  constexpr size_t kBytes = 1 << 20;
  const auto repeat = [&](std::string_view unit) {
    std::string text;
    while (text.size() + unit.size() <= kBytes) text += unit;
    return text;
  };
  std::string mixed;
  std::mt19937 random(3);
  while (mixed.size() < kBytes) mixed += specials_[random() % specials_.size()];
  const std::vector<std::string> texts = {repeat("<|im_end|>"), repeat("</s>"), repeat("a"),   repeat(" "),
                                          repeat("\n"),         repeat("a\n"),  repeat("<"),   repeat("word "),
                                          repeat("日本"),       repeat("<<|"),  repeat("</s"), mixed};
  for (const std::string& text : texts) {
    const Stopwatch watch;
    ExpectHarmless(text);
    const double ms = watch.Millis();
    EXPECT_LT(ms, 60'000) << text.substr(0, 20);
    std::printf("  %-12s 1 MiB of %s: %.0f ms\n", std::string(GetParam().name).c_str(),
                testing::PrintToString(text.substr(0, 10)).c_str(), ms);
  }
}

TEST_P(RealTokenizer, IllFormedUtf8DoesNotCrash) {
  std::mt19937 random(9);
  for (int round = 0; round < 500; ++round) {
    std::string text;
    for (size_t n = random() % 40; n > 0; --n) text += static_cast<char>(random() % 256);
    for (const TokenId token : tokenizer().Text(text)) ASSERT_FALSE(tokenizer().IsControl(token));
    for (const TokenId token : tokenizer().Markup(text)) ASSERT_LT(token, tokenizer().vocabulary_size());
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RealTokenizer, testing::ValuesIn(kTestModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace inferscale
