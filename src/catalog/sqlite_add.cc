#include "catalog/sqlite_add.h"

#include <sys/random.h>

#include "base/assert.h"
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_queue.h"
#include "catalog/sqlite_rows.h"
#include "catalog/sqlite_stale.h"

namespace inferscale::sqlite {

namespace {

Status CheckSize(size_t size, size_t limit, const char* what) {
  if (size <= limit) return {};
  return Fail(ErrorCode::kTooLarge,
              std::string(what) + " has " + std::to_string(size) + " bytes, more than " + std::to_string(limit));
}

Status CheckText(std::string_view text) {
  if (text.empty()) return Fail(ErrorCode::kInvalidArgument, "a fact without text");
  return CheckSize(text.size(), limits::kFactBytes, "a fact's text");
}

Status CheckNewFact(const NewFact& fact, const EmbedderInfo& embedder) {
  TRY(CheckSize(fact.id.size(), limits::kGivenIdBytes, "a fact's id"));
  for (const std::string* id :
       {&fact.scope.user_id, &fact.scope.agent_id, &fact.scope.run_id, &fact.scope.app_id, &fact.turn})
    TRY(CheckSize(id->size(), limits::kIdBytes, "an id"));
  TRY(CheckSize(fact.supersede_key.size(), limits::kKeyBytes, "a supersede key"));
  TRY(CheckMetadata(fact.metadata));
  return CheckContent(fact.content, embedder);
}

// Version 4: random, but for six bits that say so.
std::string MakeUuid() {
  unsigned char bytes[16];
  INFERSCALE_ASSERT(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes);  // so few bytes never come in part
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);
  std::string uuid;
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += "0123456789abcdef"[bytes[i] >> 4];
    uuid += "0123456789abcdef"[bytes[i] & 15];
  }
  return uuid;
}

uint32_t WordsOf(const FactContent& content) {
  uint32_t words = content.search.words;
  for (const NewPart& part : content.parts) words += part.search.words;
  return words;
}

Hash128 DigestOfRequest(std::span<const NewFact> facts) {
  Packer packer;
  for (const NewFact& fact : facts) {
    packer.Str(fact.id).Str(HashBlob(ContentHash(fact.content.text, fact.content.date))).Str(fact.metadata);
    packer.Signed(fact.expires_us.value_or(-1)).Str(fact.turn).Str(fact.supersede_key).Varint(fact.supersedes.size());
    for (const std::string& id : fact.supersedes) packer.Str(id);
  }
  return HashBytes(packer.bytes());
}

// The first call's result, when this key was used for the same facts within its time.
Result<std::optional<std::vector<AddedFact>>> FindReplay(Op& op, std::string_view key, const Hash128& request) {
  TRY(op.db.Run("DELETE FROM idempotency WHERE at_us<?", op.now - limits::kIdempotencyMicros));
  const std::string digest = KeyDigest(op.ns, key);
  TRY_ASSIGN(Cursor cursor,
             op.db.Query("SELECT request, result FROM idempotency WHERE ns=? AND key=?", op.ns, Blob{digest}));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return std::optional<std::vector<AddedFact>>();
  if (cursor.Bytes(0) != HashBlob(request))
    return Fail(ErrorCode::kConflict, "the idempotency key was used for other facts; use a new key for a new request");
  auto added = UnpackAdded(cursor.Bytes(1));
  if (!added) return Fail(ErrorCode::kCorrupt, "catalog: the result of this idempotency key is damaged");
  for (AddedFact& fact : *added) {
    TRY_ASSIGN(const auto there, op.db.Value("SELECT 1 FROM facts WHERE seq=? AND ns=?", fact.seq, op.ns));
    if (!there && fact.outcome != AddOutcome::kIdTaken) fact.outcome = AddOutcome::kForgotten;
  }
  return added;
}

}  // namespace

Status CheckMetadata(std::string_view metadata) {
  return CheckSize(metadata.size(), limits::kMetadataBytes, "a fact's metadata");
}

Status CheckContent(const FactContent& content, const EmbedderInfo& embedder) {
  TRY(CheckText(content.text));
  if (content.parts.empty()) return CheckSearchData(content.search, embedder);
  if (!content.search.vector.empty() || !content.search.terms.empty())
    return Fail(ErrorCode::kInvalidArgument, "a fact with parts is not searched itself");
  if (content.parts.size() > limits::kFactBytes)
    return Fail(ErrorCode::kTooLarge, "a fact has more parts than a text has bytes");
  for (const NewPart& part : content.parts) {
    TRY(CheckText(part.text));
    TRY(CheckSearchData(part.search, embedder));
  }
  return {};
}

Result<std::vector<FactSeq>> InsertParts(Op& op, const FactRow& parent, std::span<const NewPart> parts,
                                         int64_t embedder) {
  std::vector<FactSeq> seqs;
  FactRow row = parent;
  row.kind = FactKind::kPart;
  row.part_of = parent.seq;
  for (const NewPart& part : parts) {
    row.id = parent.id + "#" + std::to_string(seqs.size() + 1);
    TRY_ASSIGN(const auto taken,
               op.db.Value("SELECT 1 FROM facts WHERE id=? AND ns=?", std::string_view(row.id), op.ns));
    if (taken) return Fail(ErrorCode::kConflict, "another fact has the id that a part of this long fact needs");
    row.text = part.text;
    row.words = part.search.words;
    TRY(InsertFact(op.db, row));
    TRY(IndexFact(op, row.seq, embedder, part.search));
    seqs.push_back(row.seq);
  }
  return seqs;
}

Status HideFact(Op& op, FactRow fact, std::string_view by, std::vector<FactSeq>& hidden) {
  const bool first = fact.superseded_by.empty();
  fact.superseded_by = by;
  TRY(StoreFact(op.db, fact));
  TRY_ASSIGN(std::vector<FactRow> parts, PartsOf(op.db, op.ns, fact.seq));
  for (FactRow& part : parts) {
    part.superseded_by = by;
    TRY(StoreFact(op.db, part));
  }
  if (!first) return {};
  TRY_ASSIGN(const std::vector<FactSeq> seqs, WithParts(op.db, fact.seq));
  for (const FactSeq seq : seqs) {
    TRY(op.db.Run("DELETE FROM queue WHERE fact=?", seq));
    hidden.push_back(seq);
    op.change.superseded.push_back(seq);
  }
  op.content = true;
  return AddHistory(op, fact.id, HistoryEvent::kSupersede, std::nullopt);
}

Result<std::optional<AddedFact>> FindEqual(Op& op, std::string_view text, const std::optional<Date>& date,
                                           FactSeq other) {
  const std::string hash = HashBlob(ContentHash(text, date));
  TRY_ASSIGN(Cursor cursor, op.db.Query("SELECT seq, version, id FROM facts WHERE ns=? AND hash=? AND kind<>2 AND"
                                        " superseded_by IS NULL AND (expires_us IS NULL OR expires_us>?) AND seq<>?"
                                        " ORDER BY seq LIMIT 1",
                                        op.ns, Blob{hash}, op.now, other));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return std::optional<AddedFact>();
  return std::optional(
      AddedFact{AddOutcome::kDuplicate, std::string(cursor.Text(2)), cursor.UInt(0), cursor.U32(1), {}});
}

Result<std::optional<AddedFact>> Adder::FindSame(const NewFact& fact) {
  const std::string hash = HashBlob(ContentHash(fact.content.text, fact.content.date));
  if (!fact.id.empty()) {
    TRY_ASSIGN(Cursor cursor, op_.db.Query("SELECT seq, version, hash, kind FROM facts WHERE id=? AND ns=?",
                                           std::string_view(fact.id), op_.ns));
    TRY_ASSIGN(const bool found, cursor.Next());
    if (found) {
      const bool same = cursor.Bytes(2) == hash && cursor.Int(3) != static_cast<int>(FactKind::kPart);
      return std::optional(
          AddedFact{same ? AddOutcome::kDuplicate : AddOutcome::kIdTaken, fact.id, cursor.UInt(0), cursor.U32(1), {}});
    }
  }
  return FindEqual(op_, fact.content.text, fact.content.date, 0);
}

Result<bool> Adder::PartIdsAreFree(const NewFact& fact) {
  for (size_t i = 1; i <= fact.content.parts.size() && !fact.id.empty(); ++i) {
    const std::string id = fact.id + "#" + std::to_string(i);
    TRY_ASSIGN(const auto taken, op_.db.Value("SELECT 1 FROM facts WHERE id=? AND ns=?", std::string_view(id), op_.ns));
    if (taken) return false;
  }
  return true;
}

Result<AddedFact> Adder::Add(const NewFact& fact) {
  TRY(CheckNewFact(fact, embedder_.info));
  TRY_ASSIGN(std::optional<AddedFact> same, FindSame(fact));
  if (same) return *std::move(same);
  TRY_ASSIGN(const bool free, PartIdsAreFree(fact));
  if (!free) return AddedFact{AddOutcome::kIdTaken, fact.id, 0, 0, {}};
  TRY_ASSIGN(AddedFact added, Insert(fact));
  TRY(SupersedeOthers(fact, added));
  return added;
}

Result<AddedFact> Adder::Insert(const NewFact& fact) {
  FactRow row;
  row.name_space = op_.ns;
  row.id = fact.id.empty() ? MakeUuid() : fact.id;
  row.kind = fact.content.parts.empty() ? FactKind::kWhole : FactKind::kParent;
  row.text = fact.content.text;
  row.date = fact.content.date;
  row.order_day = fact.order_day ? *fact.order_day : row.date ? *row.date : DateOfInstant(op_.now);
  row.created_us = row.updated_us = op_.now;
  row.expires_us = fact.expires_us;
  row.metadata = fact.metadata;
  row.scope = fact.scope;
  row.turn = fact.turn;
  row.supersede_key = fact.supersede_key;
  row.words = WordsOf(fact.content);
  TRY(InsertFact(op_.db, row));
  AddedFact added{AddOutcome::kAdded, row.id, row.seq, 1, {}};
  if (row.kind == FactKind::kWhole) {
    TRY(IndexFact(op_, row.seq, embedder_.id, fact.content.search));
    TRY(Queue(row.seq));
  } else {
    TRY_ASSIGN(added.parts, InsertParts(op_, row, fact.content.parts, embedder_.id));
    for (const FactSeq part : added.parts) TRY(Queue(part));
  }
  op_.facts += 1;
  op_.content = true;
  TRY(AddHistory(op_, row.id, HistoryEvent::kAdd, std::nullopt));
  return added;
}

Status Adder::Queue(FactSeq fact) {
  if (options_.due_us) TRY(EnqueueFact(op_.db, fact, 0, *options_.due_us, op_.now));
  return {};
}

Status Adder::SupersedeOthers(const NewFact& fact, const AddedFact& added) {
  std::vector<std::string> ids = fact.supersedes;
  if (!fact.supersede_key.empty()) {
    TRY_ASSIGN(Cursor cursor, op_.db.Query("SELECT id FROM facts WHERE ns=? AND supersede_key=? AND kind<>2 AND seq<>?"
                                           " AND superseded_by IS NULL",
                                           op_.ns, std::string_view(fact.supersede_key), added.seq));
    for (;;) {
      TRY_ASSIGN(const bool more, cursor.Next());
      if (!more) break;
      ids.emplace_back(cursor.Text(0));
    }
  }
  for (const std::string& id : ids) {
    TRY_ASSIGN(FactRow old, FindFact(op_.db, op_.ns, id));
    if (old.seq == added.seq || old.kind == FactKind::kPart)
      return Fail(ErrorCode::kInvalidArgument, "a fact can supersede other whole facts only");
    TRY(HideFact(op_, std::move(old), added.id, hidden_));
  }
  return {};
}

Status Adder::Finish() {
  if (hidden_.empty()) return {};
  Gone gone;
  gone.facts.insert(hidden_.begin(), hidden_.end());
  return MakeStale(op_, gone);
}

Result<AddResult> SqliteCatalog::AddFacts(NamespaceId ns, std::span<const NewFact> facts, const AddOptions& options) {
  if (facts.size() > limits::kFactsPerBatch)
    return Fail(ErrorCode::kTooLarge, "more than " + std::to_string(limits::kFactsPerBatch) + " facts at once");
  TRY(CheckSize(options.idempotency_key.size(), limits::kKeyBytes, "an idempotency key"));
  AddResult result;
  const auto body = [&](Op& op) -> Status {
    TRY_ASSIGN(const std::optional<StoredEmbedder> embedder, FindEmbedder(op.db));
    if (!embedder) return Fail(ErrorCode::kInvalidArgument, "no embedder was named for this catalog yet");
    const Hash128 request = DigestOfRequest(facts);
    if (!options.idempotency_key.empty()) {
      TRY_ASSIGN(auto replay, FindReplay(op, options.idempotency_key, request));
      result.replayed = replay.has_value();
      if (replay) result.facts = *std::move(replay);
      if (replay) return {};
    }
    Adder adder(op, *embedder, options);
    for (const NewFact& fact : facts) {
      TRY_ASSIGN(AddedFact added, adder.Add(fact));
      result.facts.push_back(std::move(added));
    }
    TRY(adder.Finish());
    if (options.idempotency_key.empty()) return {};
    const std::string key = KeyDigest(ns, options.idempotency_key), digest = HashBlob(request);
    const std::string packed = PackAdded(result.facts);
    return op.db.Run("INSERT INTO idempotency(ns, key, request, at_us, result) VALUES(?,?,?,?,?)", ns, Blob{key},
                     Blob{digest}, op.now, Blob{packed});
  };
  TRY_ASSIGN(result.change, ChangeNamespace(ns, body));
  return result;
}

}  // namespace inferscale::sqlite
