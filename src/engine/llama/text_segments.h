// Cuts a long text into segments of bounded size, where a tokenizer is least likely to notice.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/limits.h"
#include "base/utf8.h"

namespace inferscale {

// End of the first segment of text: all of it if it is at most max_bytes. Else the cut nearest to max_bytes in the
// second half of them: behind a line break that a word follows, else before a single space, else between characters.
inline size_t SegmentEnd(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return text.size();
  const auto is_space = [&](size_t i) { return text[i] == ' ' || (text[i] >= '\t' && text[i] <= '\r'); };
  for (size_t cut = max_bytes; cut > max_bytes / 2; --cut) {
    if (text[cut - 1] == '\n' && !is_space(cut)) return cut;
  }
  for (size_t cut = max_bytes; cut > max_bytes / 2; --cut) {
    if (text[cut] == ' ' && !is_space(cut - 1) && !is_space(cut + 1 < text.size() ? cut + 1 : cut)) return cut;
  }
  const size_t cut = FloorToCodePoint(text, max_bytes);
  return cut + 4 > max_bytes ? cut : max_bytes;  // a code point has at most 4 bytes; more tails are ill-formed
}

template <class Body>
void ForEachSegment(std::string_view text, Body&& body) {
  while (!text.empty()) {
    const size_t end = SegmentEnd(text, limits::kTokenizeSegmentBytes);
    body(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace inferscale
