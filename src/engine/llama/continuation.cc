#include "engine/llama/continuation.h"

#include <cmath>

#include "base/assert.h"

namespace inferscale {

namespace {
constexpr float kNearTie = 0.05f;  // nats: design 9
}

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

Agreement Compare(std::span<const Continuation> plain, std::span<const Continuation> other) {
  INFERSCALE_ASSERT(plain.size() == other.size() && !plain.empty());
  Agreement agreement{0, true};
  for (size_t i = 0; i < plain.size(); ++i) {
    INFERSCALE_ASSERT(plain[i].argmax.size() == other[i].argmax.size());
    agreement.cosine += Cosine(plain[i].logits[0], other[i].logits[0]) / static_cast<double>(plain.size());
    for (size_t step = 0; step < plain[i].argmax.size(); ++step) {
      const TokenId mine = plain[i].argmax[step], theirs = other[i].argmax[step];
      const std::vector<float>& logits = plain[i].logits[step];  // a difference of logits is one of log-probabilities
      if (mine != theirs && logits[mine] - logits[theirs] > kNearTie) agreement.same_tokens = false;
    }
  }
  return agreement;
}

}  // namespace inferscale
