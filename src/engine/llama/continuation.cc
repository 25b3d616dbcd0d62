#include "engine/llama/continuation.h"

#include <algorithm>
#include <cmath>

#include "base/assert.h"

namespace inferscale {

Result<Continuation> Continue(LlamaSession& session, std::span<const TokenId> question, uint32_t position,
                              uint32_t steps, const Tokens& forced) {
  INFERSCALE_ASSERT(forced.empty() || forced.size() >= steps);
  Continuation made;
  Tokens next(question.begin(), question.end());
  for (uint32_t step = 0; step < steps; ++step) {
    TRY(session.Decode(next, position, true));
    position += static_cast<uint32_t>(next.size());
    const std::span<const float> logits = session.Logits();
    made.logits.emplace_back(logits.begin(), logits.end());
    made.argmax.push_back(session.Argmax());
    next = {forced.empty() ? made.argmax.back() : forced[step]};
  }
  return made;
}

double Cosine(std::span<const float> a, std::span<const float> b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    ab += double{a[i]} * b[i];
    aa += double{a[i]} * a[i];
    bb += double{b[i]} * b[i];
  }
  return ab / std::sqrt(aa * bb);
}

namespace {

// Root mean square of b - a over the vocabulary, both centred: a common offset changes no probability.
double Deviation(std::span<const float> a, std::span<const float> b) {
  double sum = 0, squares = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = double{b[i]} - a[i];
    sum += d;
    squares += d * d;
  }
  const double n = static_cast<double>(a.size()), mean = sum / n;
  return std::sqrt(std::max(0.0, squares / n - mean * mean));
}

}  // namespace

Agreement Compare(std::span<const Continuation> plain, std::span<const Continuation> other) {
  INFERSCALE_ASSERT(plain.size() == other.size() && !plain.empty());
  Agreement agreement{.cosine = 0};
  double variance = 0, steps = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    INFERSCALE_ASSERT(plain[i].argmax.size() == other[i].argmax.size());
    agreement.cosine += Cosine(plain[i].logits[0], other[i].logits[0]) / static_cast<double>(plain.size());
    for (size_t step = 0; step < plain[i].argmax.size(); ++step, ++steps) {
      const std::vector<float>& logits = plain[i].logits[step];
      const double deviation = Deviation(logits, other[i].logits[step]);
      variance += deviation * deviation;
      // A difference of logits is one of log-probabilities.
      const double margin = double{logits[plain[i].argmax[step]]} - logits[other[i].argmax[step]];
      agreement.flip = std::max(agreement.flip, margin);
    }
  }
  agreement.deviation = std::sqrt(variance / steps);
  return agreement;
}

AgreementBound BoundOf(const Agreement& own) {
  const AgreementBound strict;
  return {.cosine = std::min(strict.cosine, 1.0 - 3.0 * (1.0 - own.cosine)),
          .flip = std::max(strict.flip, 4.0 * std::sqrt(2.0) * own.deviation)};
}

}  // namespace inferscale
