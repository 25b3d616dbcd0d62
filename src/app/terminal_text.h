// Stored words on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace inferscale {

// On one line, and harmless: control characters, line breaks too, become spaces, so that a fact cannot move the cursor
// or set colours. text is valid UTF-8.
std::string ForTerminal(std::string_view text);
// The same, but its line breaks (LF) stay: for an answer.
std::string LinesForTerminal(std::string_view text);

}  // namespace inferscale
