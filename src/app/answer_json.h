// Answers as the JSON that `ask --json` prints. The fields are explained in `inferscale ask --help`.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "app/compare.h"
#include "engine/engine.h"

namespace inferscale {

// Of the first side. Where nothing can be injected, "mode" is "text" and "text_mode_reason" says why.
nlohmann::ordered_json AnswerToJson(const EngineInfo& engine, std::string_view question, const Comparison& comparison);
// Of all sides, and their ratios: none (null) where nothing can be injected.
nlohmann::ordered_json ComparisonToJson(const EngineInfo& engine, std::string_view question,
                                        const Comparison& comparison);

}  // namespace inferscale
