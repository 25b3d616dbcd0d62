#include "index/fusion.h"

#include <algorithm>
#include <string>

namespace inferscale {

namespace {

float RankValue(float cosine, float share) { return cosine + kKeywordWeight * share; }

struct Candidate {
  FusedHit hit;
  float rank_value = 0.0f;  // beyond 1 and below 0 too: those scores are equal, these places are not
};

bool IsBetter(const Candidate& a, const Candidate& b) {
  return a.rank_value != b.rank_value ? a.rank_value > b.rank_value : a.hit.row < b.hit.row;
}

Candidate Make(uint32_t row, float cosine, float keyword, float share) {
  return {{row, FusedScore(cosine, share), cosine, keyword}, RankValue(cosine, share)};
}

}  // namespace

float FusedScore(float cosine, float share) { return std::clamp(RankValue(cosine, share), 0.0f, 1.0f); }

Result<std::vector<FusedHit>> SearchFused(const ExactIndex& index, std::span<const float> query,
                                          std::span<const KeywordRow> keywords, const RowMask* allowed, size_t k,
                                          std::optional<float> threshold) {
  // A row without a keyword match ranks by its cosine, so only the k best of those by cosine can be among the k best of
  // all: those, and every row with a match, are all that has to be looked at.
  TRY_ASSIGN(const std::vector<SearchHit> nearest, index.Search(query, k, SIZE_MAX, allowed));
  std::vector<uint32_t> rows;
  rows.reserve(keywords.size());
  for (const KeywordRow& keyword : keywords) rows.push_back(keyword.row);
  TRY_ASSIGN(const std::vector<float> cosines, index.Scores(query, rows));

  std::vector<Candidate> candidates;
  candidates.reserve(nearest.size() + keywords.size());
  RowMask has_match(index.size(), false);
  for (size_t i = 0; i < keywords.size(); ++i) {
    const KeywordRow& keyword = keywords[i];
    if (has_match.Test(keyword.row))
      return Fail(ErrorCode::kInvalidArgument, "row " + std::to_string(keyword.row) + " has two keyword matches");
    has_match.Set(keyword.row);
    if (!index.IsLive(keyword.row) || (allowed != nullptr && !allowed->Test(keyword.row))) continue;
    candidates.push_back(Make(keyword.row, cosines[i], keyword.score, keyword.share));
  }
  for (const SearchHit& hit : nearest)
    if (!has_match.Test(hit.row)) candidates.push_back(Make(hit.row, hit.score, 0.0f, 0.0f));

  if (threshold) std::erase_if(candidates, [&](const Candidate& c) { return c.hit.score < *threshold; });
  const size_t count = std::min(k, candidates.size());
  std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(count), candidates.end(),
                    IsBetter);
  std::vector<FusedHit> hits;
  hits.reserve(count);
  for (size_t i = 0; i < count; ++i) hits.push_back(candidates[i].hit);
  return hits;
}

}  // namespace inferscale
