// One ranking of cosine and keywords: rank value = cosine + kKeywordWeight * share (KeywordHit::share); the score that
// is reported and held against thresholds is this value cut to [0, 1].
//
// A fact's score depends on the fact, the question and the namespace's word counts alone, never falls by a keyword
// match, and without one is the cosine itself: a threshold that was chosen for cosines keeps its meaning, and a match
// only helps to pass it. Reciprocal ranks (1 / (60 + rank), summed) have none of this: they forget how good a match is,
// and a filter would change the scores, and the order, of what it leaves.
//
// Measured: share of the evidence found among the first 5, 10, 20, 50 facts, 1,183 questions about nine long
// conversations of 169 to 324 facts, all-MiniLM-L6-v2 (the weight was chosen on a tenth conversation; 0.4 to 0.7 are
// within half a point of it):
//   cosine alone           .650 .737 .819 .898
//   this, weight 0.5       .716 .780 .843 .906     minus cosine: +.066 [.049, .083] at 5, +.008 [-.001, .016] at 50
//   reciprocal ranks       .665 .738 .795 .876
//   BM25 alone             .560 .647 .706 .793
// Cutting possessive and plural endings changed it by less than the measurement can tell (+.005 [-.003, .013] at 5), so
// words are searched for as they are.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "index/exact_index.h"

namespace inferscale {

inline constexpr float kKeywordWeight = 0.5f;

struct KeywordRow {
  uint32_t row = 0;                  // of the index
  float score = 0.0f, share = 0.0f;  // of its KeywordHit
};

struct FusedHit {
  uint32_t row = 0;
  float score = 0.0f;    // 0..1
  float cosine = 0.0f;   // -1..1
  float keyword = 0.0f;  // BM25; 0: no term in common
};

// Score from cosine and KeywordHit::share (0: no match).
float FusedScore(float cosine, float share);

// The k best of the rows allowed (null: all live ones), best first; ties: the smaller row first, which is the order of
// arrival. Exact: as if all rows were sorted. keywords: the rows with a keyword match, each once, in any order; those
// that are not allowed or were removed are skipped. threshold: lower scores are left out. kInvalidArgument:
// ExactIndex::Search's; a keyword row that is not in the index, or given twice.
Result<std::vector<FusedHit>> SearchFused(const ExactIndex& index, std::span<const float> query,
                                          std::span<const KeywordRow> keywords, const RowMask* allowed, size_t k,
                                          std::optional<float> threshold = std::nullopt);

}  // namespace inferscale
