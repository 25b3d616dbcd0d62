// Changing a fact, and superseding one by another.
#include "base/limits.h"
#include "catalog/sqlite_add.h"
#include "catalog/sqlite_delete.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_queue.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_stale.h"

namespace inferscale::sqlite {

namespace {

Result<Gone> GoneWithParts(Op& op, const FactRow& row) {
  Gone gone;
  TRY_ASSIGN(const std::vector<FactSeq> seqs, WithParts(op.db, row.seq));
  gone.facts.insert(seqs.begin(), seqs.end());
  return gone;
}

// A new text: a new version, with new parts, vector and terms. `row` is stored.
Status ReplaceContent(Op& op, FactRow& row, const FactContent& content, const StoredEmbedder& embedder,
                      UpdateResult& result) {
  TRY_ASSIGN(const Gone gone, GoneWithParts(op, row));
  TRY(MakeStale(op, gone));
  if (row.kind == FactKind::kWhole) TRY(UnindexFact(op, row.seq, row.words));
  TRY(DeleteParts(op, row.seq));
  TRY(op.db.Run("DELETE FROM queue WHERE fact=?", row.seq));
  TRY(AddHistory(op, row.id, HistoryEvent::kUpdate, row.text));

  row.version += 1;
  row.kind = content.parts.empty() ? FactKind::kWhole : FactKind::kParent;
  row.text = content.text;
  row.date = content.date;
  if (content.date) row.order_day = *content.date;
  row.words = content.search.words;
  for (const NewPart& part : content.parts) row.words += part.search.words;
  TRY(StoreFact(op.db, row));
  if (row.kind == FactKind::kWhole) TRY(IndexFact(op, row.seq, embedder.id, content.search));
  TRY_ASSIGN(result.parts, InsertParts(op, row, content.parts, embedder.id));
  op.content = true;
  return {};
}

// What parts have in common with their parent.
Status CopyToParts(Op& op, const FactRow& row) {
  TRY_ASSIGN(std::vector<FactRow> parts, PartsOf(op.db, op.ns, row.seq));
  for (FactRow& part : parts) {
    part.metadata = row.metadata;
    part.expires_us = row.expires_us;
    part.updated_us = row.updated_us;
    TRY(StoreFact(op.db, part));
  }
  return {};
}

// Attributes that are no content. An expiry where there was none: the fact leaves all windows, its own record stays.
Status ChangeAttributes(Op& op, FactRow& row, const FactUpdate& update) {
  const bool gets_expiry = update.expires_us && update.expires_us->has_value() && !row.expires_us;
  if (update.expires_us) row.expires_us = *update.expires_us;
  if (update.metadata) row.metadata = *update.metadata;
  if (update.expires_us || update.metadata) op.content = true;
  if (!gets_expiry) return {};
  TRY_ASSIGN(Gone gone, GoneWithParts(op, row));
  gone.own = false;
  return MakeStale(op, gone);
}

Status QueueUpdated(Op& op, const FactRow& row, const UpdateResult& result, const FactUpdate& update) {
  if (!update.due_us) return {};
  if (row.kind == FactKind::kWhole) TRY(EnqueueFact(op.db, row.seq, 0, *update.due_us, op.now));
  for (const FactSeq part : result.parts) TRY(EnqueueFact(op.db, part, 0, *update.due_us, op.now));
  return {};
}

Status UpdateIn(Op& op, std::string_view id, const FactUpdate& update, UpdateResult& result) {
  TRY_ASSIGN(FactRow row, FindFact(op.db, op.ns, id));
  if (row.kind == FactKind::kPart)
    return Fail(ErrorCode::kInvalidArgument, "a part of a long fact cannot be changed alone: change the fact");
  if (update.expected_version && *update.expected_version != row.version)
    return Fail(ErrorCode::kConflict, "the fact has version " + std::to_string(row.version) + ", not " +
                                          std::to_string(*update.expected_version) + ": read it again");
  TRY(ChangeAttributes(op, row, update));
  const FactContent* content = update.content ? &*update.content : nullptr;
  result.content_changed = content != nullptr && (content->text != row.text || content->date != row.date);
  if (op.content || result.content_changed) row.updated_us = op.now;
  if (result.content_changed) {
    TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(op.db));
    if (!embedder) return Fail(ErrorCode::kInvalidArgument, "no embedder was named for this catalog yet");
    TRY(CheckContent(*content, embedder->info));
    TRY_ASSIGN(const auto equal, FindEqual(op, content->text, content->date, row.seq));
    if (equal)
      return Fail(ErrorCode::kInvalidArgument, "fact " + QuotedId(equal->id) +
                                                   " of this namespace has this text and date already: forget one of "
                                                   "the two");
    TRY(ReplaceContent(op, row, *content, *embedder, result));
    TRY(QueueUpdated(op, row, result, update));
  } else if (op.content) {
    TRY(StoreFact(op.db, row));
    TRY(CopyToParts(op, row));
  }
  result.seq = row.seq;
  result.version = row.version;
  return {};
}

}  // namespace

Result<UpdateResult> SqliteCatalog::UpdateFact(NamespaceId ns, std::string_view id, const FactUpdate& update) {
  if (update.metadata) TRY(CheckMetadata(*update.metadata));
  UpdateResult result;
  TRY_ASSIGN(result.change, ChangeNamespace(ns, [&](Op& op) { return UpdateIn(op, id, update, result); }));
  has_residue_ = true;
  return result;
}

Result<Change> SqliteCatalog::Supersede(NamespaceId ns, std::string_view old_id, std::string_view new_id) {
  return ChangeNamespace(ns, [&](Op& op) -> Status {
    TRY_ASSIGN(FactRow old, FindFact(op.db, ns, old_id));
    TRY_ASSIGN(const FactRow by, FindFact(op.db, ns, new_id));
    if (old.seq == by.seq || old.kind == FactKind::kPart || by.kind == FactKind::kPart)
      return Fail(ErrorCode::kInvalidArgument, "a fact can supersede other whole facts only");
    Gone gone;
    std::vector<FactSeq> hidden;
    TRY(HideFact(op, std::move(old), by.id, hidden));
    gone.facts.insert(hidden.begin(), hidden.end());
    return hidden.empty() ? Status() : MakeStale(op, gone);
  });
}

}  // namespace inferscale::sqlite
