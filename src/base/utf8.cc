#include "base/utf8.h"

#include <cstdint>

namespace inferscale {

namespace {

// Length of the well-formed sequence at text[at], or 0. Table 3-7 of the Unicode standard.
size_t WellFormedBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<uint8_t>(text[i]) : 0; };
  const auto is_tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(at);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return is_tail(at + 1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const uint8_t low = lead == 0xE0 ? 0xA0 : 0x80;    // no overlong forms
    const uint8_t high = lead == 0xED ? 0x9F : 0xBF;   // no surrogates
    return byte(at + 1) >= low && byte(at + 1) <= high && is_tail(at + 2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const uint8_t low = lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xF4 ? 0x8F : 0xBF;   // at most U+10FFFF
    return byte(at + 1) >= low && byte(at + 1) <= high && is_tail(at + 2) && is_tail(at + 3) ? 4 : 0;
  }
  return 0;
}

}  // namespace

size_t FirstInvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = WellFormedBytes(text, at);
    if (bytes == 0) return at;
    at += bytes;
  }
  return std::string_view::npos;
}

size_t CodePointBytes(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
}

size_t FloorToCodePoint(std::string_view text, size_t at) {
  if (at >= text.size()) return text.size();
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

}  // namespace inferscale
