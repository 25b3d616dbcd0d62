// The tables, and how an older file is brought to this version. Described in docs/formats/catalog.md.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "catalog/sqlite_connection.h"

namespace inferscale::sqlite {

// Step i brings a file from schema i to i + 1, in a transaction of its own. A step that was released never changes.
std::span<const char* const> Migrations();

// Makes the tables or migrates, and page checksums with them; both are in the database file, durable, on return.
// program: noted in the file as its last writer. kVersionUnsupported: the file's schema is newer than the last step,
// the message says who wrote it; nothing is changed. kCorrupt: not a catalog, or its definitions are damaged.
Status Migrate(Connection& connection, std::span<const char* const> steps, std::string_view program);

}  // namespace inferscale::sqlite
