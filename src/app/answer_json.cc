#include "app/answer_json.h"

#include <algorithm>
#include <cmath>

namespace inferscale {

namespace {

double ToMicrosecond(double ms) { return std::round(ms * 1000.0) / 1000.0; }  // more decimals say nothing

nlohmann::ordered_json SideToJson(const EngineInfo& engine, std::string_view question, const Side& side) {
  const Answer& a = side.answer;
  nlohmann::ordered_json facts = nlohmann::ordered_json::array();
  for (size_t rank = 0; rank < a.ranked.size(); ++rank) {
    if (std::find(a.used.begin(), a.used.end(), rank) == a.used.end()) continue;
    const RecalledFact& fact = a.ranked[rank];
    facts.push_back({{"rank", rank + 1}, {"id", fact.id}, {"score", fact.score}, {"text", fact.text}});
  }
  nlohmann::ordered_json dropped = nlohmann::ordered_json::array();
  for (const size_t rank : a.dropped) dropped.push_back(a.ranked[rank].id);
  return {{"question", question},
          {"model", engine.model_name},
          {"mode", ModeName(side.mode)},
          {"answer", a.text},
          {"facts_used", a.used.size()},
          {"prompt_tokens", a.prompt_tokens},
          {"injected_tokens", a.injected_tokens},
          {"computed_tokens", a.computed_tokens},
          {"retrieve_ms", ToMicrosecond(a.retrieve_ms)},
          {"load_ms", ToMicrosecond(a.load_ms)},
          {"compose_ms", ToMicrosecond(a.compose_ms)},
          {"inject_ms", ToMicrosecond(a.inject_ms)},
          {"prefill_ms", ToMicrosecond(a.prefill_ms)},
          {"ttft_ms", ToMicrosecond(a.ttft_ms)},
          {"total_ms", ToMicrosecond(a.total_ms)},
          {"finish", a.finish == FinishReason::kLength ? "length" : "stop"},
          {"facts", std::move(facts)},
          {"facts_dropped", std::move(dropped)}};
}

}  // namespace

nlohmann::ordered_json AnswerToJson(const EngineInfo& engine, std::string_view question, const Comparison& comparison) {
  nlohmann::ordered_json json = SideToJson(engine, question, comparison.sides.front());
  if (!comparison.text_mode_reason.empty()) json["text_mode_reason"] = comparison.text_mode_reason;
  return json;
}

nlohmann::ordered_json ComparisonToJson(const EngineInfo& engine, std::string_view question,
                                        const Comparison& comparison) {
  nlohmann::ordered_json json;
  for (const Side& side : comparison.sides) json[std::string(ModeName(side.mode))] = SideToJson(engine, question, side);
  if (!comparison.text_mode_reason.empty()) {
    json["ttft_ratio"] = nullptr;
    json["text_mode_reason"] = comparison.text_mode_reason;
    return json;
  }
  json["ttft_ratio"] = comparison.TtftRatio(AnswerMode::kText, AnswerMode::kKv);
  if (comparison.Find(AnswerMode::kFloor) != nullptr)
    json["floor_ratio"] = comparison.TtftRatio(AnswerMode::kKv, AnswerMode::kFloor);
  return json;
}

}  // namespace inferscale
