// SQLite's pages and values hold text: memory that it frees must not keep it.
#pragma once

namespace inferscale::sqlite {

// Makes SQLite's allocator overwrite what it frees, and lets it keep no memory of its own beside ("lookaside") that it
// uses again without freeing it; for the whole process. Has to come before SQLite's first use, and
// is done by Connection::Open; any number of calls. Without effect when something else initialised SQLite before.
void ClearFreedMemory();

}  // namespace inferscale::sqlite
