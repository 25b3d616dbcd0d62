#include "embed/unicode.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>
#include <unicode/utf16.h>

#include "base/assert.h"
#include "base/utf8.h"

namespace inferscale::unicode {

namespace {

constexpr char32_t kReplacement = 0xFFFD;

// Categories as they were in Unicode 8.0.
int8_t Category(char32_t c) {
  switch (c) {
    case 0x166D:   // CANADIAN SYLLABICS CHI SIGN, a symbol since 12.0
    case 0x111C9:  // SHARADA SANDHI MARK, a mark since 11.0
      return U_OTHER_PUNCTUATION;
    case 0x1734:
      return U_NON_SPACING_MARK;  // HANUNOO SIGN PAMUDPOD, spacing since 14.0
    case 0xA9BD:
      return U_COMBINING_SPACING_MARK;  // JAVANESE CONSONANT SIGN KERET, nonspacing since 11.0
    case 0x1885:
    case 0x1886:
      return U_OTHER_LETTER;  // MONGOLIAN LETTER ALI GALI BALUDA and THREE BALUDA, marks since 9.0
    default:
      break;
  }
  UVersionInfo age;
  u_charAge(static_cast<UChar32>(c), age);
  return age[0] <= 8 ? u_charType(static_cast<UChar32>(c)) : static_cast<int8_t>(U_UNASSIGNED);
}

bool IsIn(char32_t c, char32_t first, char32_t last) { return c >= first && c <= last; }

std::u16string ToUtf16(std::u32string_view text) {
  std::u16string out;
  out.reserve(text.size());
  for (const char32_t c : text) {
    if (c <= 0xFFFF) {
      out += static_cast<char16_t>(c);
    } else {
      out += static_cast<char16_t>(U16_LEAD(c));
      out += static_cast<char16_t>(U16_TRAIL(c));
    }
  }
  return out;
}

std::u32string FromUtf16(std::u16string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    UChar32 c = 0;
    U16_NEXT(text.data(), i, text.size(), c);
    out += static_cast<char32_t>(c);
  }
  return out;
}

}  // namespace

std::u32string DecodeUtf8(std::string_view text) {
  std::u32string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const size_t bad = std::min(FirstInvalidUtf8(text), text.size());
    for (size_t at = 0; at < bad;) {
      const size_t bytes = CodePointBytes(text, at);
      char32_t c = static_cast<uint8_t>(text[at]);
      if (bytes > 1) c &= 0x7Fu >> bytes;
      for (size_t i = 1; i < bytes; ++i) c = c << 6 | (static_cast<uint8_t>(text[at + i]) & 0x3Fu);
      out += c;
      at += bytes;
    }
    if (bad < text.size()) out += kReplacement;
    text.remove_prefix(std::min(bad + 1, text.size()));
  }
  return out;
}

void AppendUtf8(char32_t c, std::string& out) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((c >> shift) & 0x3F)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

bool IsControl(char32_t c) {
  if (c < 0x7F) return c < 0x20 && c != '\t' && c != '\n' && c != '\r';
  const int8_t category = Category(c);
  return category == U_CONTROL_CHAR || category == U_FORMAT_CHAR || category == U_PRIVATE_USE_CHAR;
}

bool IsSpace(char32_t c) {
  if (c < 0x80) return c == ' ' || IsIn(c, '\t', '\r');
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_WHITE_SPACE);
}

bool IsPunctuation(char32_t c) {
  if (c < 0x80) return IsIn(c, '!', '/') || IsIn(c, ':', '@') || IsIn(c, '[', '`') || IsIn(c, '{', '~');
  switch (Category(c)) {
    case U_DASH_PUNCTUATION:
    case U_START_PUNCTUATION:
    case U_END_PUNCTUATION:
    case U_CONNECTOR_PUNCTUATION:
    case U_OTHER_PUNCTUATION:
    case U_INITIAL_PUNCTUATION:
    case U_FINAL_PUNCTUATION:
      return true;
    default:
      return false;
  }
}

bool IsNonspacingMark(char32_t c) { return c >= 0x300 && Category(c) == U_NON_SPACING_MARK; }

bool IsIdeograph(char32_t c) {
  if (c < 0x3400) return false;
  return IsIn(c, 0x4E00, 0x9FFF) || IsIn(c, 0x3400, 0x4DBF) || IsIn(c, 0xF900, 0xFAFF) || IsIn(c, 0x20000, 0x2A6DF) ||
         IsIn(c, 0x2A700, 0x2B73F) || IsIn(c, 0x2B740, 0x2B81F) ||
         IsIn(c, 0x2B920, 0x2CEAF) ||  // extension E starts at 2B820: the original's slip, kept
         IsIn(c, 0x2F800, 0x2FA1F);
}

std::u32string CanonicalDecomposition(std::u32string_view text) {
  const std::u16string source = ToUtf16(text);
  UErrorCode error = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&error);
  INFERSCALE_ASSERT(U_SUCCESS(error));  // its data is part of the library
  // No character grows more than threefold in UTF-16 (UAX #15).
  std::u16string out(3 * source.size(), u'\0');
  const int32_t size = unorm2_normalize(nfd, source.data(), static_cast<int32_t>(source.size()), out.data(),
                                        static_cast<int32_t>(out.size()), &error);
  INFERSCALE_ASSERT(U_SUCCESS(error));
  return FromUtf16({out.data(), static_cast<size_t>(size)});
}

char32_t LowerCase(char32_t c) {
  if (c < 0x80) return IsIn(c, 'A', 'Z') ? c + 0x20 : c;
  return static_cast<char32_t>(u_tolower(static_cast<UChar32>(c)));
}

}  // namespace inferscale::unicode
