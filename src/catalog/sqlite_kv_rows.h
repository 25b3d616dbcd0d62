// Rows of the kv table.
#pragma once

#include <functional>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_connection.h"

// In the order that ReadRecord expects.
#define INFERSCALE_KV_COLUMNS \
  "record, ns, fact, version, model, encoding, calibration, window, tokens, segment, offset, bytes, saw"

namespace inferscale::sqlite {

inline constexpr int kKvColumns = 13;

// The cursor's row, whose first columns are INFERSCALE_KV_COLUMNS; false when its checksum does not fit.
bool ReadRecord(const Cursor& cursor, KvRow& row);

// Calls use for each row until it returns false. Damaged ones are left out.
Status ReadRecords(Cursor& cursor, const std::function<bool(const KvRow&)>& use);

Status InsertRecord(Connection& db, const KvRow& row);

}  // namespace inferscale::sqlite
