// Settings, and erasure.
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_impl.h"
#include "catalog/sqlite_wipe.h"

namespace inferscale::sqlite {

Result<std::optional<std::string>> SqliteCatalog::GetSetting(std::string_view key) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT value FROM settings WHERE key='user.' || ?", key));
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return std::optional<std::string>();
  auto value = UnsealText(key, cursor.Bytes(0));
  if (!value) return Fail(ErrorCode::kCorrupt, "catalog: a setting is damaged; set it again");
  return value;
}

Status SqliteCatalog::SetSetting(std::string_view key, std::string_view value) {
  if (key.empty() || key.size() > limits::kKeyBytes || value.size() > limits::kSettingBytes)
    return Fail(ErrorCode::kTooLarge, "a setting's name has 1 to " + std::to_string(limits::kKeyBytes) +
                                          " bytes, its value at most " + std::to_string(limits::kSettingBytes));
  TRY_ASSIGN(Pool::Writer writer, Write());
  const std::string sealed = SealText(key, value);
  // A prefix keeps them apart from the catalog's own.
  TRY(
      (*writer).Run("INSERT INTO settings(key, value) VALUES('user.' || ?1, ?2)"
                    " ON CONFLICT(key) DO UPDATE SET value=?2",
                    key, Blob{sealed}));
  TRY(writer.Commit());
  has_residue_ = true;
  return {};
}

Status SqliteCatalog::Scrub() {
  if (!has_residue_.exchange(false)) return {};
  const Status status = pool_->Alone([](Connection& db) -> Status {
    TRY(db.EmptyLog());  // it holds pages as they were
    return WipeUnusedSpace(db);
  });
  if (!status) has_residue_ = true;
  return status;
}

}  // namespace inferscale::sqlite
