// Freed memory keeps what was in it until something else is written there: the words of a forgotten fact too.
#pragma once

namespace inferscale {

// clear_freed.cc replaces operator delete by one that overwrites what it frees, in programs that have it among their
// sources: it is in no library, where it would be linked or not by accident. Holds for all C++ code of the program.
// Costs a write of each freed block, about 10 GB/s; blocks that go back to the system as a whole are not touched.
// Memory of malloc, of SQLite (catalog/sqlite_memory.h) and on stacks is not covered.
// False: built with a sanitizer, which has operators of its own.
bool FreedHeapIsCleared();

}  // namespace inferscale
