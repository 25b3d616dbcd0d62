// Whether facts have KV, without an engine: whichever model it is for.
#pragma once

#include <string_view>
#include <unordered_set>

#include "base/error.h"
#include "catalog/catalog.h"

namespace inferscale {

class KvStates {
 public:
  // Of one namespace, as it is now.
  static Result<KvStates> Read(Catalog& catalog, NamespaceId ns);

  // "encoded": it, or each of its parts, has a usable record; "queued": it will get one; "text": neither.
  Result<std::string_view> Of(Catalog& catalog, const FactRow& fact) const;

 private:
  std::unordered_set<FactSeq> encoded_, queued_;
};

}  // namespace inferscale
