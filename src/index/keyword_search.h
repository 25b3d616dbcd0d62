// Keyword search: BM25 over one namespace's postings, with statistics of that namespace alone.
//
// score(fact) = sum over the question's distinct terms t of idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * words /
// average words)), idf(t) = ln((N - n + 0.5) / (n + 0.5)) but at least 1e-6, k1 = 1.2, b = 0.75: the formula of
// SQLite's FTS5, which the tests hold it against. A term that half the facts have tells nothing about any of them, and
// the lower bound leaves it only the power to put facts that have it before those that have not.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "catalog/catalog_types.h"

namespace inferscale {

// A namespace, as keyword search sees it.
class PostingSource {
 public:
  virtual ~PostingSource() = default;

  virtual uint64_t facts() const = 0;  // N: rows that have postings (NamespaceInfo::searchable)
  virtual uint64_t words() const = 0;  // of all those rows

  // [terms] As Catalog::Postings: what more than `cap` facts have comes without its list.
  virtual Result<std::vector<TermPostings>> Postings(std::span<const std::string> terms, size_t cap) = 0;

  // A fact's length in words. nullopt: it must not be found (filtered, expired, superseded, deleted meanwhile).
  virtual std::optional<uint32_t> Words(FactSeq fact) const = 0;
};

struct KeywordHit {
  FactSeq fact = 0;
  float score = 0.0f;  // BM25, > 0
  // score / what a fact of average length with each of the question's terms once would score, at most 1. Terms that no
  // fact of the namespace has count as the rarest ones: what was asked for is then not all there.
  float share = 0.0f;
};

// All facts that have one of the terms, best first; ties: the smaller seq first. terms: distinct (QueryTerms), at most
// limits::kTermsPerQuery (kTooLarge).
//
// A term that more than a quarter of the facts have, and more than limits::kCommonTermFacts, is left out: it costs the
// most and tells the least. If no other term of the question is known, the rarest of them are used after all, as many
// as have limits::kCommonPostings together.
Result<std::vector<KeywordHit>> SearchKeywords(PostingSource& source, std::span<const std::string> terms);

}  // namespace inferscale
