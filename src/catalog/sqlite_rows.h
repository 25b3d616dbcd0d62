// Rows of the facts and turns tables.
#pragma once

#include <optional>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_op.h"

// In the order that ReadFact expects.
#define INFERSCALE_FACT_COLUMNS                                                                               \
  "f.seq, f.ns, f.id, f.version, f.kind, f.part_of, f.text, f.date, f.order_day, f.created_us, f.updated_us," \
  " f.expires_us, f.metadata, f.user_id, f.agent_id, f.run_id, f.app_id, f.turn, f.supersede_key,"            \
  " f.superseded_by, f.words, f.sum"

namespace inferscale::sqlite {

inline constexpr int kFactColumns = 22;

// The cursor's row, whose first columns are INFERSCALE_FACT_COLUMNS; false when its checksum does not fit.
bool ReadFact(const Cursor& cursor, FactRow& row);

// The same for turns of a namespace: seq, id, ordinal, speaker, text, date, version, sum.
bool ReadTurn(const Cursor& cursor, NamespaceId ns, TurnRow& row);

// The first rows of a cursor. Damaged ones are left out and not counted, so that a short page is the last one; so are
// (but for ns 0) those to which a damaged index leads from another namespace.
Result<std::vector<FactRow>> ReadFacts(Cursor& cursor, NamespaceId ns, size_t limit = SIZE_MAX);

// kNotFound; kCorrupt when it is damaged. id is quoted in the message only when it is short and printable.
Result<FactRow> FindFact(Connection& db, NamespaceId ns, std::string_view id);
std::string QuotedId(std::string_view id);  // for messages: shortened, without control characters
Error NoSuchFact(std::string_view id);

// Inserts the row and sets its seq; or writes all columns of the row of its seq.
Status InsertFact(Connection& db, FactRow& row);
Status StoreFact(Connection& db, const FactRow& row);

Result<std::vector<FactRow>> PartsOf(Connection& db, NamespaceId ns, FactSeq parent);
// A fact and its parts, damaged ones too.
Result<std::vector<FactSeq>> WithParts(Connection& db, FactSeq fact);

// Appends an event. old_text: of an update.
Status AddHistory(Op& op, std::string_view fact, HistoryEvent event, std::optional<std::string_view> old_text);

}  // namespace inferscale::sqlite
