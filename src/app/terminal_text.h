// Stored words on a terminal.
#pragma once

#include <string>
#include <string_view>

namespace inferscale {

// On one line, and harmless: control characters, line breaks too, and marks that turn the order of characters around
// become spaces, so that a fact cannot move the cursor, set colours or rewrite what stands beside it.
std::string ForTerminal(std::string_view text);
// The same, but its line breaks (LF) stay: for an answer.
std::string LinesForTerminal(std::string_view text);

}  // namespace inferscale
