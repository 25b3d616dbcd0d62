// Checking and inserting facts.
#pragma once

#include <span>
#include <unordered_map>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_op.h"
#include "catalog/sqlite_terms.h"

namespace inferscale::sqlite {

// Against limits and the embedder: kInvalidArgument, kTooLarge, kMismatch.
Status CheckContent(const FactContent& content, const EmbedderInfo& embedder);
Status CheckMetadata(std::string_view metadata);

// A live fact of the namespace with this text and date, but for the fact `other` (0: none). Its outcome is kDuplicate.
Result<std::optional<AddedFact>> FindEqual(Op& op, std::string_view text, const std::optional<Date>& date,
                                           FactSeq other);

// Inserts the parts of a stored parent: ids "ID#1", "ID#2", … with everything else of the parent. kConflict: another
// fact has one of these ids.
Result<std::vector<FactSeq>> InsertParts(Op& op, const FactRow& parent, std::span<const NewPart> parts,
                                         int64_t embedder);

// Hides a fact and its parts; `by`: the id of the one that replaces it. Facts are added to `hidden`, for MakeStale.
Status HideFact(Op& op, FactRow fact, std::string_view by, std::vector<FactSeq>& hidden);

// Adds facts one after the other; Finish makes stale what saw those that were superseded.
class Adder {
 public:
  // All must outlive it.
  Adder(Op& op, const StoredEmbedder& embedder, const AddOptions& options)
      : op_(op), embedder_(embedder), options_(options) {}

  Result<AddedFact> Add(const NewFact& fact);
  Status Finish();

 private:
  Result<std::optional<AddedFact>> FindSame(const NewFact& fact);
  Result<bool> PartIdsAreFree(const NewFact& fact);
  Result<AddedFact> Insert(const NewFact& fact);
  Status Queue(FactSeq fact);
  Status SupersedeOthers(const NewFact& fact, const AddedFact& added);

  Op& op_;
  const StoredEmbedder& embedder_;
  const AddOptions& options_;
  std::vector<FactSeq> hidden_;
};

}  // namespace inferscale::sqlite
