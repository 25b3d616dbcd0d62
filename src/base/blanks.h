// White space of ASCII, at the ends of a text and between its words.
#pragma once

#include <string_view>

namespace inferscale {

inline constexpr std::string_view kBlanks = " \t\r\n\v\f";

// Without the blanks at both ends; a part of `text`.
inline std::string_view Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

}  // namespace inferscale
