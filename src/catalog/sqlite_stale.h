// The staleness rule: what has seen a text that is gone or changed is not usable from the same transaction on.
#pragma once

#include <unordered_set>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_op.h"

namespace inferscale::sqlite {

// Texts that are gone, changed, superseded, or may be in no window any more. A text's older versions need no thought:
// what saw those became stale before.
struct Gone {
  std::unordered_set<FactSeq> facts;
  std::unordered_set<TurnSeq> turns;
  bool own = true;  // the facts' own records too
};

// Takes every record of op.ns that saw one of them (and their own) off the usable ones, puts it on the erase list,
// queues its fact again unless that is one of gone.facts, and counts up the stale count of the runs concerned.
// A record whose row is damaged counts as one that saw it.
Status MakeStale(Op& op, const Gone& gone);

// The same for given records of op.ns, for other reasons; their runs stay as they are. Unknown ones are skipped.
Status DropRecord(Op& op, RecordSeq record, bool requeue);

// Puts bytes that no row names on the erase list.
Status EraseLater(Connection& db, DeadRecord dead, std::vector<DeadRecord>& out);

}  // namespace inferscale::sqlite
