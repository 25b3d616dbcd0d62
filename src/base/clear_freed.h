// Freed memory keeps what was in it until something else is written there: the words of a forgotten fact too.
#pragma once

namespace inferscale {

// A program that names this function has operators delete that overwrite what they free: they are linked with it, and
// hold for all C++ code of the program. Costs a write of each freed block (about 10 GB/s). Memory of malloc, of SQLite
// (catalog/sqlite_memory.h) and on stacks is not covered. False: built with a sanitizer, which has operators of its
// own.
bool FreedHeapIsCleared();

}  // namespace inferscale
