// Taking facts away with everything that was made of them.
#pragma once

#include <span>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_op.h"

namespace inferscale::sqlite {

// Deletes whole facts and parents (with their parts) of op.ns, each given once; also damaged ones. Their words go out
// of the history, which gets `event`; source turns that no other live fact has go too.
Status DeleteRows(Op& op, std::span<const FactSeq> facts, HistoryEvent event);

// Deletes the parts of a fact, whose records are stale already.
Status DeleteParts(Op& op, FactSeq parent);

// Everything in the namespace but its history and its own row. facts: how many there were.
Status ClearNamespace(Op& op, uint64_t& facts);

}  // namespace inferscale::sqlite
