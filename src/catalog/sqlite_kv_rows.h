// Rows of the kv table.
#pragma once

#include <functional>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_connection.h"

// In the order that ReadRecords expects.
#define INFERSCALE_KV_COLUMNS \
  "record, ns, fact, version, model, encoding, calibration, window, tokens, segment, offset, bytes"

namespace inferscale::sqlite {

// Calls use for each row until it returns false. Rows with a digest of a wrong length are left out.
Status ReadRecords(Cursor& cursor, const std::function<bool(const KvRow&)>& use);

Status InsertRecord(Connection& db, const KvRow& row);

}  // namespace inferscale::sqlite
