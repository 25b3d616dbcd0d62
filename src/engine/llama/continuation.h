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
Result<Continuation> Continue(LlamaSession& session, std::span<const TokenId> question, uint32_t position,
                              uint32_t steps, const Tokens& forced = {});

struct Agreement {
  double cosine = 1;     // of the logits right behind the questions, mean
  double deviation = 0;  // root mean square difference of the centred logits over all steps, nats
  double flip = 0;       // largest margin, in nats, by which plain preferred a choice that the other did not make
};

// plain and other: one continuation per question, `other` forced along plain's choices.
Agreement Compare(std::span<const Continuation> plain, std::span<const Continuation> other);

// What an agreement must reach. Asked for are a cosine of 0.999 and the same greedy choices up to near ties
// (0.05 nats). Where activations are rounded to 8 bits some models do not reach that against themselves: Gemma 3 270M
// Q4_K_M, prefilled at positions 0 and 61, agrees to 0.994..0.999 and prefers another token by up to 0.8 nats; with the
// same weights as f32 it agrees to 0.99999. So the bound is what the engine's own distance explains: three times the
// cosine's, and for a choice, the difference of two logits, four standard deviations, 4 * sqrt(2) = 5.7 of `deviation`.
struct AgreementBound {
  double cosine = 0.999;
  double flip = 0.05;
};
AgreementBound BoundOf(const Agreement& engine_with_itself);

inline bool Agree(const Agreement& a, const AgreementBound& bound) {
  return a.cosine >= bound.cosine && a.flip <= bound.flip;
}

double Cosine(std::span<const float> a, std::span<const float> b);

}  // namespace inferscale
