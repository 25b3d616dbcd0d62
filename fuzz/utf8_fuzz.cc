// FirstInvalidUtf8 against a decoder that follows RFC 3629's table literally; and what the other functions promise.
#include "base/utf8.h"

#include <cstdint>
#include <cstdlib>

namespace {

// Bytes of the well-formed code point at `at`, or 0.
size_t NaiveCodePoint(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0; };
  auto tail = [&](size_t i) { return byte(i) >= 0x80 && byte(i) <= 0xbf; };
  unsigned first = byte(0), second = byte(1);
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first <= 0xdf) return tail(1) ? 2 : 0;
  if (first == 0xe0) return second >= 0xa0 && second <= 0xbf && tail(2) ? 3 : 0;
  if (first == 0xed) return second >= 0x80 && second <= 0x9f && tail(2) ? 3 : 0;
  if (first >= 0xe1 && first <= 0xef) return tail(1) && tail(2) ? 3 : 0;
  if (first == 0xf0) return second >= 0x90 && second <= 0xbf && tail(2) && tail(3) ? 4 : 0;
  if (first >= 0xf1 && first <= 0xf3) return tail(1) && tail(2) && tail(3) ? 4 : 0;
  if (first == 0xf4) return second >= 0x80 && second <= 0x8f && tail(2) && tail(3) ? 4 : 0;
  return 0;
}

void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  size_t at = 0;
  while (at < size && NaiveCodePoint(text, at) > 0) at += NaiveCodePoint(text, at);
  Check(inferscale::FirstInvalidUtf8(text) == (at < size ? at : std::string_view::npos));

  std::string_view valid = text.substr(0, at);
  size_t start = 0;  // of the code point that holds byte i
  for (size_t i = 0; i < valid.size(); ++i) {
    if (i == start + NaiveCodePoint(valid, start)) start = i;
    Check(inferscale::FloorToCodePoint(valid, i) == start);
    if (i == start) Check(inferscale::CodePointBytes(valid, i) == NaiveCodePoint(valid, i));
  }
  return 0;
}
