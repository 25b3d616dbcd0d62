#include "app/terminal_text.h"

#include <gtest/gtest.h>

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

TEST(ForTerminal, WordsOfAllScriptsStay) {
  for (const char* text : {"caf\u00e9", "\u00a0", "\u6771\u4eac", "\u05e9\u05dc\u05d5\u05dd", "\U0001F600"})
    EXPECT_EQ(ForTerminal(text), text);
}

}  // namespace
}  // namespace inferscale
