// One ranking of cosine and keywords.
//
// score = c + (1 - c) * kKeywordWeight * share, c = max(cosine, 0), share = KeywordHit::share.
//
// Why not reciprocal ranks (1 / (60 + rank)): they forget how good a match is, so that a threshold means nothing; the
// score of a fact changes with the facts around it, so that a filter reorders what it leaves; and a fact that ranks
// second by cosine alone loses to one that ranks twentieth in both lists. This score is in [0, 1], depends on the fact
// and the question (and on the namespace's word counts) alone, never falls by a keyword match, is the cosine itself for
// a fact without one, and so any threshold of the cosine keeps its meaning: a match only helps to pass it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/error.h"
#include "index/exact_index.h"

namespace inferscale {

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

float FusedScore(float cosine, float keyword_share);

// The k best of the rows allowed (null: all live ones), best first; ties: the smaller row first, which is the order of
// arrival. Exact: as if each row's fused score were sorted. keywords: rows with a keyword match, each once, in any
// order; those that are not allowed or were removed are skipped. threshold: lower scores are left out.
// kInvalidArgument: ExactIndex::Search's, a row that is not in the index.
Result<std::vector<FusedHit>> SearchFused(const ExactIndex& index, std::span<const float> query,
                                          std::span<const KeywordRow> keywords, const RowMask* allowed, size_t k,
                                          std::optional<float> threshold = std::nullopt);

}  // namespace inferscale
