#include "index/keyword_search.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "base/limits.h"

namespace inferscale {

namespace {

constexpr double kK1 = 1.2;  // FTS5's, and most others'
constexpr double kB = 0.75;

double Idf(double facts, double with_term) {
  return std::max(1e-6, std::log((facts - with_term + 0.5) / (with_term + 0.5)));
}

// Statistics and lists are read at different moments than the number of facts: a list may be longer than that number.
double IdfOf(const PostingSource& source, const TermPostings& term) {
  return Idf(static_cast<double>(std::max(source.facts(), term.facts)), static_cast<double>(term.facts));
}

// A question of common terms only: the rarest of them, as many as fit into the limit, and one at least. The others are
// left without a list.
Status ReadCommonTerms(PostingSource& source, std::span<const std::string> terms, std::vector<TermPostings>& postings) {
  std::vector<size_t> order(terms.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::erase_if(order, [&](size_t i) { return !postings[i].too_common; });
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return postings[a].facts < postings[b].facts; });
  uint64_t total = 0;
  std::vector<std::string> wanted;
  size_t count = 0;
  for (; count < order.size(); ++count) {
    total += postings[order[count]].facts;
    if (count > 0 && total > limits::kCommonPostings) break;
    wanted.push_back(terms[order[count]]);
  }
  TRY_ASSIGN(std::vector<TermPostings> lists, source.Postings(wanted, SIZE_MAX));
  if (lists.size() != count) return Fail(ErrorCode::kInternal, "postings of other terms than were asked for");
  for (size_t i = 0; i < count; ++i) postings[order[i]] = std::move(lists[i]);
  return {};
}

Result<std::vector<TermPostings>> ReadPostings(PostingSource& source, std::span<const std::string> terms) {
  const size_t cap = std::max<size_t>(limits::kCommonTermFacts, source.facts() / 4);
  TRY_ASSIGN(std::vector<TermPostings> postings, source.Postings(terms, cap));
  if (postings.size() != terms.size()) return Fail(ErrorCode::kInternal, "postings of other terms than were asked for");
  const auto has_list = [](const TermPostings& term) { return !term.postings.empty(); };
  const auto is_common = [](const TermPostings& term) { return term.too_common; };
  if (std::none_of(postings.begin(), postings.end(), has_list) &&
      std::any_of(postings.begin(), postings.end(), is_common))
    TRY(ReadCommonTerms(source, terms, postings));
  return postings;
}

}  // namespace

Result<std::vector<KeywordHit>> SearchKeywords(PostingSource& source, std::span<const std::string> terms) {
  if (terms.size() > limits::kTermsPerQuery)
    return Fail(ErrorCode::kTooLarge,
                "the question has more than " + std::to_string(limits::kTermsPerQuery) + " different words");
  if (terms.empty() || source.facts() == 0) return std::vector<KeywordHit>();
  TRY_ASSIGN(const std::vector<TermPostings> postings, ReadPostings(source, terms));

  const double average = std::max(1.0, static_cast<double>(source.words()) / static_cast<double>(source.facts()));
  struct Score {
    double bm25 = 0.0;
    double length = 0.0;  // k1 * (1 - b + b * words / average); 0: must not be found
  };
  std::unordered_map<FactSeq, Score> scores;
  double full = 0.0;  // what a fact of average length scores that has each term once
  for (const TermPostings& term : postings) {
    if (term.too_common) continue;
    const double idf = IdfOf(source, term);
    full += idf;
    for (const Posting& posting : term.postings) {
      const auto [place, is_new] = scores.try_emplace(posting.fact);
      Score& score = place->second;
      if (is_new) {
        const std::optional<uint32_t> words = source.Words(posting.fact);
        if (words) score.length = kK1 * (1 - kB + kB * *words / average);
      }
      if (score.length > 0) score.bm25 += idf * posting.count * (kK1 + 1) / (posting.count + score.length);
    }
  }

  std::vector<KeywordHit> hits;
  hits.reserve(scores.size());
  for (const auto& [fact, score] : scores)
    if (score.bm25 > 0)
      hits.push_back({fact, static_cast<float>(score.bm25), static_cast<float>(std::min(1.0, score.bm25 / full))});
  std::sort(hits.begin(), hits.end(), [](const KeywordHit& a, const KeywordHit& b) {
    return a.score != b.score ? a.score > b.score : a.fact < b.fact;
  });
  return hits;
}

}  // namespace inferscale
