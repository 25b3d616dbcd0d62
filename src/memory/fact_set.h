// The facts of one namespace, ready to be searched and encoded: in order of event time, tokenised, embedded.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "base/error.h"
#include "core/fact.h"
#include "core/types.h"
#include "core/window.h"
#include "embed/embedder.h"
#include "engine/tokenizer.h"
#include "index/exact_index.h"

namespace inferscale {

class VectorCache;

// done of total, for a progress bar. Called on the caller's thread.
using ProgressFn = std::function<void(size_t done, size_t total)>;

class FactSet {
 public:
  struct Item {
    Fact fact;
    Tokens tokens;  // of fact.PromptText(), tokenised alone
    Sight AsSight() const { return {fact.id, fact.version, tokens}; }
  };

  // facts: sorted by event time, long ones split (core/fact.h, memory/fact_file.h). cache (may be null) keeps vectors.
  static Result<FactSet> Make(std::vector<Fact> facts, const Tokenizer& tokenizer, Embedder& embedder,
                              VectorCache* cache, const ProgressFn& progress);

  size_t size() const { return items_.size(); }
  const Item& operator[](size_t i) const { return items_[i]; }
  const ExactIndex& index() const { return index_; }  // row i is fact i
  size_t embedded() const { return embedded_; }       // vectors that had to be computed
  size_t tokens() const;

 private:
  explicit FactSet(uint32_t dim) : index_(dim) {}
  std::vector<Item> items_;
  ExactIndex index_;
  size_t embedded_ = 0;
};

}  // namespace inferscale
