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

// The same for the turns table: seq, id, ordinal, speaker, text, date, version, sum.
bool ReadTurn(const Cursor& cursor, TurnRow& row);

// All rows of a cursor; damaged ones are left out.
Result<std::vector<FactRow>> ReadFacts(Cursor& cursor);

// kNotFound; kCorrupt when it is damaged. id is quoted in the message only when it is short and printable.
Result<FactRow> FindFact(Connection& db, NamespaceId ns, std::string_view id);
Error NoSuchFact(std::string_view id);

// Inserts the row and sets its seq; or writes all columns of the row of its seq.
Status InsertFact(Connection& db, FactRow& row);
Status StoreFact(Connection& db, const FactRow& row);

Result<std::vector<FactRow>> PartsOf(Connection& db, FactSeq parent);

// Appends an event. old_text: of an update.
Status AddHistory(Op& op, std::string_view fact, HistoryEvent event, std::optional<std::string_view> old_text);

}  // namespace inferscale::sqlite
