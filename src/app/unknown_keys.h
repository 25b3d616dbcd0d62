// Keys of JSON Lines that nobody knows: a mistyped "date" must not be lost in silence.
#pragma once

#include <span>
#include <string_view>

#include "app/fact_lines.h"

namespace inferscale {

// Says on standard error which keys of how many lines are not kept, if any. name: of the file.
void WarnOfUnknownKeys(std::span<const FactLine> lines, std::string_view name);
void WarnOfUnknownKeys(std::span<const TurnLine> lines, std::string_view name);

}  // namespace inferscale
