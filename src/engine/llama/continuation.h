// Whether two ways of filling a sequence continue alike: the measure of the self-test and of the injection tests.
#pragma once

#include <span>
#include <vector>

#include "base/error.h"
#include "core/types.h"
#include "engine/llama/llama_session.h"

namespace inferscale {

// Logits after a question behind what the sequence holds, and after each greedy token.
struct Continuation {
  std::vector<std::vector<float>> logits;  // [steps][vocabulary]
  Tokens argmax;                           // [steps]
};

// Computes `question` from `position` on, then steps along `forced`, or along its own choices when that is empty.
Result<Continuation> Continue(LlamaSession& session, std::span<const TokenId> question, uint32_t position, uint32_t steps,
                              const Tokens& forced = {});

struct Agreement {
  double cosine = 0;         // of the logits right behind the question
  bool same_tokens = false;  // greedy choices, up to near ties
};

// `other` was forced along plain's choices. A choice may differ where plain's own two best candidates are closer than
// 0.05 in log-probability. Cosines of later steps are not asked for: with weights and activations of 4 and 8 bits, the
// engine's own prefills of one text at two positions differ there as much (down to 0.995 on SmolLM2-135M).
Agreement Compare(const Continuation& plain, const Continuation& other);

inline constexpr double kCosineMin = 0.999;  // design 6.7
inline bool Agree(const Agreement& a) { return a.cosine >= kCosineMin && a.same_tokens; }

double Cosine(std::span<const float> a, std::span<const float> b);

}  // namespace inferscale
