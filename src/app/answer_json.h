// Answers as the JSON that `ask --json` prints. The fields are explained in `inferscale ask --help`.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

#include "app/compare.h"
#include "engine/engine.h"

namespace inferscale {

nlohmann::ordered_json AnswerToJson(const EngineInfo& engine, std::string_view question, const Side& side);
nlohmann::ordered_json ComparisonToJson(const EngineInfo& engine, std::string_view question,
                                        const Comparison& comparison);

}  // namespace inferscale
