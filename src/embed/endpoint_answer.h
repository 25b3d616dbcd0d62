// The answer of an OpenAI-compatible embedding endpoint.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace inferscale {

// Unit vectors, [texts][dim]. dim: 0 for any, the same for all. kEngine says what is wrong with the answer.
Result<std::vector<float>> ParseEmbeddings(std::string_view body, size_t texts, uint32_t dim);

// What an error's body says, in one short line, for messages: "" if nothing, or if it repeats one of the texts (a
// message must not hold a user's words).
std::string ParseEndpointError(std::string_view body, std::span<const std::string> texts);

}  // namespace inferscale
