#include "catalog/sqlite_kv_rows.h"

#include "catalog/sqlite_codec.h"

namespace inferscale::sqlite {

bool ReadRecord(const Cursor& cursor, KvRow& row) {
  row.record = cursor.UInt(0);
  row.name_space = cursor.Int(1);
  row.fact = cursor.UInt(2);
  row.content_version = cursor.U32(3);
  row.encoding = static_cast<KvEncoding>(cursor.Int(5));
  row.n_tokens = cursor.U32(8);
  row.location = {cursor.UInt(9), cursor.UInt(10), cursor.UInt(11)};
  const auto model = HashOfBlob(cursor.Bytes(4)), calibration = HashOfBlob(cursor.Bytes(6)),
             window = HashOfBlob(cursor.Bytes(7));
  if (!model || !calibration || !window) return false;
  row.model_key = *model;
  row.calibration_id = *calibration;
  row.window_digest = *window;
  return UnpackSeen(cursor.Bytes(12), row);
}

Status ReadRecords(Cursor& cursor, const std::function<bool(const KvRow&)>& use) {
  KvRow row;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    if (ReadRecord(cursor, row) && !use(row)) return {};
  }
}

Status InsertRecord(Connection& db, const KvRow& row) {
  const std::string model = HashBlob(row.model_key), calibration = HashBlob(row.calibration_id),
                    window = HashBlob(row.window_digest), saw = PackSeen(row);
  return db.Run("INSERT INTO kv(" INFERSCALE_KV_COLUMNS ") VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", row.record,
                row.name_space, row.fact, row.content_version, Blob{model}, static_cast<int>(row.encoding),
                Blob{calibration}, Blob{window}, row.n_tokens, row.location.segment, row.location.offset,
                row.location.bytes, Blob{saw});
}

}  // namespace inferscale::sqlite
