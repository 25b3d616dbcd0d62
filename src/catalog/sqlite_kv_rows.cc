#include "catalog/sqlite_kv_rows.h"

#include "catalog/sqlite_codec.h"

namespace inferscale::sqlite {

Status ReadRecords(Cursor& cursor, const std::function<bool(const KvRow&)>& use) {
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return {};
    const auto model = HashOfBlob(cursor.Bytes(4)), calibration = HashOfBlob(cursor.Bytes(6)),
               window = HashOfBlob(cursor.Bytes(7));
    if (!model || !calibration || !window) continue;
    KvRow row;
    row.record = cursor.UInt(0);
    row.name_space = cursor.Int(1);
    row.fact = cursor.UInt(2);
    row.content_version = cursor.U32(3);
    row.model_key = *model;
    row.encoding = static_cast<KvEncoding>(cursor.Int(5));
    row.calibration_id = *calibration;
    row.window_digest = *window;
    row.n_tokens = cursor.U32(8);
    row.location = {cursor.UInt(9), cursor.UInt(10), cursor.UInt(11)};
    if (!use(row)) return {};
  }
}

Status InsertRecord(Connection& db, const KvRow& row) {
  const std::string model = HashBlob(row.model_key), calibration = HashBlob(row.calibration_id),
                    window = HashBlob(row.window_digest), saw = PackSeen(row.saw);
  return db.Run("INSERT INTO kv(" INFERSCALE_KV_COLUMNS ", saw) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)", row.record,
                row.name_space, row.fact, row.content_version, Blob{model}, static_cast<int>(row.encoding),
                Blob{calibration}, Blob{window}, row.n_tokens, row.location.segment, row.location.offset,
                row.location.bytes, Blob{saw});
}

}  // namespace inferscale::sqlite
