// The encode queue's one way in.
#pragma once

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_connection.h"

namespace inferscale::sqlite {

// Queues a fact, or gives it the larger priority and the earlier instant. false: it is a parent, superseded or gone.
Result<bool> EnqueueFact(Connection& db, FactSeq fact, int32_t priority, Micros due_us, Micros now);

}  // namespace inferscale::sqlite
