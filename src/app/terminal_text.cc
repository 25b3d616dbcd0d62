#include "app/terminal_text.h"

namespace inferscale {

namespace {

std::string Harmless(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == 0xC2 && next < 0xA0) {  // U+0080 to U+009F: some terminals take U+009B for an escape sequence
      out += ' ';
      ++i;
    } else {
      out += (byte < 0x20 && !(lines && byte == '\n')) || byte == 0x7F ? ' ' : text[i];
    }
  }
  return out;
}

}  // namespace

std::string ForTerminal(std::string_view text) { return Harmless(text, false); }
std::string LinesForTerminal(std::string_view text) { return Harmless(text, true); }

}  // namespace inferscale
