#include "catalog/sqlite_op.h"

namespace inferscale::sqlite {

Status Op::Check() const {
  TRY_ASSIGN(const auto found, db.Value("SELECT 1 FROM namespaces WHERE id=?", ns));
  if (!found) return Fail(ErrorCode::kNotFound, "there is no namespace " + std::to_string(ns));
  return {};
}

Status Op::Finish() const {
  return db.Run(
      "UPDATE namespaces SET facts=facts+?, searchable=searchable+?, words=words+?, turns=turns+?,"
      " kv_bytes=kv_bytes+?, generation=generation+?, last_active_us=CASE ? WHEN 1 THEN max(last_active_us, ?)"
      " ELSE last_active_us END WHERE id=?",
      facts, searchable, words, turns, kv_bytes, content, content, now, ns);
}

}  // namespace inferscale::sqlite
