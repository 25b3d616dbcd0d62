// One change of one namespace while its transaction runs: what it counts up and reports.
#pragma once

#include <cstdint>

#include "base/error.h"
#include "catalog/catalog_types.h"
#include "catalog/sqlite_connection.h"

namespace inferscale::sqlite {

struct Op {
  Connection& db;
  NamespaceId ns;
  Micros now;
  Change change = {};
  // Added to the namespace's row by Finish.
  int64_t facts = 0;
  int64_t searchable = 0;
  int64_t words = 0;
  int64_t turns = 0;
  int64_t kv_bytes = 0;
  bool content = false;  // facts or turns changed: a new generation

  // kNotFound when there is no such namespace.
  Status Check() const;
  Status Finish() const;
};

}  // namespace inferscale::sqlite
