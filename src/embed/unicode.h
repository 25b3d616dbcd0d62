// What BERT's tokenizer needs to know about Unicode. Every call of ICU is in unicode.cc.
//
// The original tokenizer classifies characters by the tables of Unicode 8.0, whatever the machine has. A newer ICU
// would drop or split characters that the original keeps, and so give other ids: here a class counts only if the
// character existed in 8.0, and the six that changed their category since then are listed.
#pragma once

#include <string>
#include <string_view>

namespace inferscale::unicode {

// Ill-formed bytes become U+FFFD.
std::u32string DecodeUtf8(std::string_view text);
void AppendUtf8(char32_t c, std::string& out);

bool IsControl(char32_t c);      // Cc, Cf, Co; also NUL; not tab, line feed, carriage return
bool IsSpace(char32_t c);        // White_Space
bool IsPunctuation(char32_t c);  // P*, and ASCII's $ + < = > ^ ` | ~
bool IsNonspacingMark(char32_t c);
bool IsIdeograph(char32_t c);  // CJK ideographs; not kana, not hangul

std::u32string CanonicalDecomposition(std::u32string_view text);  // NFD
char32_t LowerCase(char32_t c);

}  // namespace inferscale::unicode
