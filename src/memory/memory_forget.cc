// Memory: what goes, goes everywhere.
#include "memory/memory.h"

namespace inferscale {

Result<DeleteResult> Memory::Delete(NamespaceId ns, const std::function<Result<DeleteResult>()>& commit) {
  DeleteResult result;
  const auto run = [&]() -> Status {
    TRY_ASSIGN(result, commit());
    return {};
  };
  const auto apply = [&](NameSpaceIndex& index) -> Status {
    index.Apply(result.change);
    return {};
  };
  TRY(indexes_->Change(ns, run, apply));
  TRY(Follow(result.change));
  if (result.deleted > 0) TRY(catalog_->Scrub());
  return result;
}

Result<DeleteResult> Memory::Forget(std::string_view name_space, std::span<const std::string> ids) {
  TRY_ASSIGN(const NamespaceInfo ns, Find(name_space));
  return Delete(ns.id, [&] { return catalog_->DeleteFacts(ns.id, ids); });
}

Result<DeleteResult> Memory::ForgetWhere(std::string_view name_space, std::string_view filter) {
  TRY_ASSIGN(const std::vector<std::string> ids, Select(name_space, filter));
  return Forget(name_space, ids);
}

Result<DeleteResult> Memory::ForgetNamespace(std::string_view name_space) {
  TRY_ASSIGN(const NamespaceInfo ns, Find(name_space));
  DeleteResult result;
  const auto commit = [&]() -> Status {
    TRY_ASSIGN(result, catalog_->DeleteNamespace(ns.id));
    return {};
  };
  // All of its rows: the index itself goes, and its vectors are overwritten with it.
  const auto apply = [](NameSpaceIndex&) -> Status { return Fail(ErrorCode::kNotFound, "deleted"); };
  TRY(indexes_->Change(ns.id, commit, apply));
  TRY(Follow(result.change));
  TRY(catalog_->Scrub());
  return result;
}

Result<DeleteResult> Memory::ForgetExpired() {
  DeleteResult all;
  for (;;) {
    DeleteResult result;
    const auto commit = [&]() -> Status {
      TRY_ASSIGN(result, catalog_->ExpireDue(limits::kListPage));
      return {};
    };
    const auto apply = [&](NameSpaceIndex& index) -> Status {
      index.Apply(result.change);
      return {};
    };
    TRY(indexes_->ChangeAny(commit, apply));
    if (result.deleted == 0) break;
    TRY(Follow(result.change));
    all.deleted += result.deleted;
    const auto append = [](auto& to, auto& from) { to.insert(to.end(), from.begin(), from.end()); };
    append(all.change.removed, result.change.removed);
    append(all.change.turns, result.change.turns);
    append(all.change.dead, result.change.dead);
    append(all.change.requeued, result.change.requeued);
  }
  if (all.deleted > 0) TRY(catalog_->Scrub());
  return all;
}

Status Memory::Supersede(std::string_view name_space, std::string_view old_id, std::string_view new_id) {
  TRY_ASSIGN(const NamespaceInfo ns, Find(name_space));
  Change change;
  const auto commit = [&]() -> Status {
    TRY_ASSIGN(change, catalog_->Supersede(ns.id, old_id, new_id));
    return {};
  };
  const auto apply = [&](NameSpaceIndex& index) -> Status {
    index.Apply(change);
    return {};
  };
  TRY(indexes_->Change(ns.id, commit, apply));
  return Follow(change);
}

}  // namespace inferscale
