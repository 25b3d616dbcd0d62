// Answers of one question, repeated and compared: interleaved pairs, medians, ratios.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "memory/answer.h"

namespace inferscale {

struct CompareOptions {
  AnswerOptions answer;  // mode is set per side
  std::vector<AnswerMode> sides;
  int repeat = 1;  // medians over this many rounds of all sides in turn; more than 1: after one warm-up round
  std::string text_mode_reason;  // not empty: nothing can be injected, so that only the text side is run
};

struct Side {
  AnswerMode mode = AnswerMode::kKv;
  Answer answer;             // of the last round, its times replaced by medians
  std::vector<double> ttft;  // [repeat]
};

struct Comparison {
  std::vector<Side> sides;       // in the order asked for
  std::string text_mode_reason;  // of the options
  const Side* Find(AnswerMode mode) const;
  // Both sides must be there. Median over rounds of numerator's first-token time divided by denominator's in the same
  // round.
  double TtftRatio(AnswerMode numerator, AnswerMode denominator) const;
};

Result<Comparison> RunComparison(const AnswerContext& context, std::string_view question,
                                 const CompareOptions& options);

double Median(std::vector<double> values);  // not empty
std::string_view ModeName(AnswerMode mode);

}  // namespace inferscale
