// JSON from outside, by the letter: what a lenient parser would drop in silence is an error.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"

namespace inferscale {

// kTooLarge: lists and objects more than limits::kJsonNesting deep. kInvalidJson, without a word of the input but a
// repeated key: "not valid JSON at byte 14 (…)", a number beyond every range, or an object with the same key twice, of
// whose values one would be lost.
Result<nlohmann::json> ParseStrictJson(std::string_view text);

}  // namespace inferscale
