#include "app/terminal_text.h"

#include <gtest/gtest.h>

#include <string>

namespace inferscale {
namespace {

TEST(ForTerminal, ControlCharactersBecomeSpaces) {
  EXPECT_EQ(ForTerminal("a\x1b[31mred\nb\tc\x7f"), "a [31mred b c ");
  EXPECT_EQ(ForTerminal("a\xC2\x9B"
                        "31mb"),
            "a 31mb");
}

TEST(ForTerminal, AnAnswerKeepsItsLinesAndNothingElse) {
  EXPECT_EQ(LinesForTerminal("a\n\x1b[31mb\r\nc"), "a\n [31mb \nc");
}

TEST(ForTerminal, NothingTurnsALineAround) {
  for (const char* mark : {"\u202e", "\u2066", "\u200b", "\u200f", "\u061c", "\u2028", "\ufeff"})
    EXPECT_EQ(ForTerminal(std::string("a") + mark + "b"), "a b");
}

TEST(ForTerminal, WordsOfAllScriptsStay) {
  for (const char* text :
       {"caf\u00e9", "\u00a0", "\u6771\u4eac", "\u05e9\u05dc\u05d5\u05dd", "\U0001F600",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001F469\u200d\U0001F52C", "\xe2\x80", "\xff"})
    EXPECT_EQ(ForTerminal(text), text);
}

}  // namespace
}  // namespace inferscale
