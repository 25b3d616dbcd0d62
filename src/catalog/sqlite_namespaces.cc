// Namespaces.
#include "base/limits.h"
#include "catalog/sqlite_codec.h"
#include "catalog/sqlite_delete.h"
#include "catalog/sqlite_impl.h"

#define INFERSCALE_NAMESPACE_COLUMNS \
  "id, name, created_us, last_active_us, facts, searchable, words, turns, generation, kv_bytes, sum"

namespace inferscale::sqlite {

namespace {

// A name that is not what it was would give one's facts to another.
Result<NamespaceInfo> ReadNamespace(const Cursor& cursor) {
  NamespaceInfo info;
  info.id = cursor.Int(0);
  info.name = cursor.Text(1);
  info.created_us = cursor.Int(2);
  info.last_active_us = cursor.Int(3);
  int i = 4;
  for (uint64_t* count : {&info.facts, &info.searchable, &info.words, &info.turns, &info.generation, &info.kv_bytes})
    *count = cursor.UInt(i++);
  if (SumOfName(info.name) != cursor.Int(i))
    return Fail(ErrorCode::kCorrupt, "catalog: the name of namespace number " + std::to_string(info.id) +
                                         " is damaged; run `inferscale fsck`, or restore a copy");
  return info;
}

Result<std::vector<NamespaceInfo>> ReadNamespaces(Cursor& cursor) {
  std::vector<NamespaceInfo> all;
  for (;;) {
    TRY_ASSIGN(const bool more, cursor.Next());
    if (!more) return all;
    TRY_ASSIGN(NamespaceInfo info, ReadNamespace(cursor));
    all.push_back(std::move(info));
  }
}

Result<NamespaceInfo> OnlyNamespace(Cursor& cursor) {
  TRY_ASSIGN(const bool found, cursor.Next());
  if (!found) return Fail(ErrorCode::kNotFound, "there is no such namespace");
  return ReadNamespace(cursor);
}

Result<NamespaceInfo> FindByName(Connection& db, std::string_view name) {
  TRY_ASSIGN(Cursor cursor, db.Query("SELECT " INFERSCALE_NAMESPACE_COLUMNS " FROM namespaces WHERE name=?", name));
  return OnlyNamespace(cursor);
}

}  // namespace

Result<NamespaceId> SqliteCatalog::OpenNamespace(std::string_view name) {
  if (name.empty() || name.size() > limits::kNamespaceBytes)
    return Fail(ErrorCode::kInvalidArgument,
                "a namespace's name has 1 to " + std::to_string(limits::kNamespaceBytes) + " bytes");
  {
    TRY_ASSIGN(Pool::Reader reader, pool_->Read());
    const auto found = FindByName(*reader, name);
    if (found) return found->id;
    if (found.error().code != ErrorCode::kNotFound) return tl::unexpected<Error>(found.error());
  }
  TRY_ASSIGN(Pool::Writer writer, Write());
  TRY(
      (*writer).Run("INSERT INTO namespaces(name, sum, created_us, last_active_us) VALUES(?1, ?2, ?3, ?3)"
                    " ON CONFLICT(name) DO NOTHING",
                    name, SumOfName(name), Now()));
  TRY_ASSIGN(const NamespaceInfo made, FindByName(*writer, name));
  TRY(writer.Commit());
  return made.id;
}

Result<NamespaceInfo> SqliteCatalog::FindNamespace(std::string_view name) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  return FindByName(*reader, name);
}

Result<NamespaceInfo> SqliteCatalog::GetNamespace(NamespaceId ns) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_NAMESPACE_COLUMNS " FROM namespaces WHERE id=?", ns));
  return OnlyNamespace(cursor);
}

Result<std::vector<NamespaceInfo>> SqliteCatalog::ListNamespaces(NamespaceId after, size_t limit) {
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor,
             (*reader).Query("SELECT " INFERSCALE_NAMESPACE_COLUMNS " FROM namespaces WHERE id>? ORDER BY id LIMIT ?",
                             after, std::min(limit, limits::kListPage)));
  return ReadNamespaces(cursor);
}

Result<std::vector<NamespaceInfo>> SqliteCatalog::EvictionCandidates(size_t limit) {
  {  // what was used a moment ago is not what to evict
    TRY_ASSIGN(Pool::Writer writer, Write());
    TRY(writer.Commit());
  }
  TRY_ASSIGN(Pool::Reader reader, pool_->Read());
  TRY_ASSIGN(Cursor cursor, (*reader).Query("SELECT " INFERSCALE_NAMESPACE_COLUMNS
                                            " FROM namespaces WHERE kv_bytes>0 ORDER BY last_active_us, id LIMIT ?",
                                            std::min(limit, limits::kListPage)));
  return ReadNamespaces(cursor);
}

Result<DeleteResult> SqliteCatalog::DeleteNamespace(NamespaceId ns) {
  DeleteResult result;
  TRY_ASSIGN(Pool::Writer writer, Write());
  Op op{*writer, ns, Now()};
  TRY(op.Check());
  TRY(ClearNamespace(op, result.deleted));
  TRY(op.db.Run("DELETE FROM history WHERE ns=?", ns));
  TRY(op.db.Run("DELETE FROM namespaces WHERE id=?", ns));
  TRY(writer.Commit());
  has_residue_ = true;
  result.change = std::move(op.change);
  return result;
}

}  // namespace inferscale::sqlite
