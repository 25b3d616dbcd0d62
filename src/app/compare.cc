#include "app/compare.h"

#include <algorithm>

#include "base/assert.h"

namespace inferscale {

double Median(std::vector<double> values) {
  INFERSCALE_ASSERT(!values.empty());
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

std::string_view ModeName(AnswerMode mode) {
  switch (mode) {
    case AnswerMode::kKv:
      return "kv";
    case AnswerMode::kText:
      return "text";
    case AnswerMode::kFloor:
      return "floor";
  }
  return "unknown";
}

const Side* Comparison::Find(AnswerMode mode) const {
  for (const Side& side : sides)
    if (side.mode == mode) return &side;
  return nullptr;
}

double Comparison::TtftRatio(AnswerMode numerator, AnswerMode denominator) const {
  const Side *a = Find(numerator), *b = Find(denominator);
  INFERSCALE_ASSERT(a != nullptr && b != nullptr);
  std::vector<double> ratios;
  for (size_t i = 0; i < a->ttft.size(); ++i) ratios.push_back(a->ttft[i] / b->ttft[i]);
  return Median(std::move(ratios));
}

namespace {
constexpr double Answer::*kTimes[] = {&Answer::retrieve_ms, &Answer::load_ms, &Answer::compose_ms, &Answer::inject_ms,
                                      &Answer::prefill_ms,  &Answer::ttft_ms, &Answer::total_ms};
}

Result<Comparison> RunComparison(const AnswerContext& context, std::string_view question,
                                 const CompareOptions& options) {
  Comparison comparison;
  comparison.text_mode_reason = options.text_mode_reason;
  if (options.text_mode_reason.empty())
    for (const AnswerMode mode : options.sides) comparison.sides.push_back({mode, {}, {}});
  else
    comparison.sides.push_back({AnswerMode::kText, {}, {}});
  std::vector<std::vector<Answer>> rounds(comparison.sides.size());
  const int warm_up = options.repeat > 1 ? 1 : 0;
  for (int round = 0; round < warm_up + options.repeat; ++round) {
    for (size_t s = 0; s < rounds.size(); ++s) {
      AnswerOptions answer = options.answer;
      answer.mode = comparison.sides[s].mode;
      TRY_ASSIGN(Answer made, AnswerQuestion(context, question, answer, nullptr));
      if (round >= warm_up) rounds[s].push_back(std::move(made));
    }
  }
  for (size_t s = 0; s < rounds.size(); ++s) {
    Side& side = comparison.sides[s];
    side.answer = rounds[s].back();
    for (const Answer& answer : rounds[s]) side.ttft.push_back(answer.ttft_ms);
    for (const auto time : kTimes) {
      std::vector<double> values;
      for (const Answer& answer : rounds[s]) values.push_back(answer.*time);
      side.answer.*time = Median(std::move(values));
    }
  }
  return comparison;
}

}  // namespace inferscale
