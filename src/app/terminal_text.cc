#include "app/terminal_text.h"

#include <cstdint>
#include <utility>

namespace inferscale {

namespace {

bool IsControl(uint32_t c) {
  return c < 0x20 || (c >= 0x7F && c <= 0x9F);  // some terminals take U+009B for an escape sequence
}

// Invisible, and changes how a line's other characters are ordered or where it ends. Not the joiners U+200C and U+200D,
// which scripts and emoji need.
bool IsFormat(uint32_t c) {
  return c == 0x061C || c == 0x200B || c == 0x200E || c == 0x200F || (c >= 0x2028 && c <= 0x202E) ||
         (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

// The code point at text[at] and its bytes; a byte that begins none stands for itself.
std::pair<uint32_t, size_t> CodePointAt(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(text[at + i])); };
  const uint32_t first = byte(0);
  const size_t bytes = first < 0xC0 ? 1 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (bytes == 1 || at + bytes > text.size()) return {first < 0x80 ? first : 0xFFFD, 1};
  uint32_t c = first & (0x7F >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {0xFFFD, 1};
    c = c << 6 | (byte(i) & 0x3F);
  }
  return {c, bytes};
}

std::string Harmless(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    const auto [c, bytes] = CodePointAt(text, i);
    if ((IsControl(c) && !(lines && c == '\n')) || IsFormat(c))
      out += ' ';
    else
      out.append(text, i, bytes);
    i += bytes;
  }
  return out;
}

}  // namespace

std::string ForTerminal(std::string_view text) { return Harmless(text, false); }
std::string LinesForTerminal(std::string_view text) { return Harmless(text, true); }

}  // namespace inferscale
