// INFERSCALE_ASSERT(condition): checks for our own bugs, in every build. Never for input: input gets an Error.
#pragma once

namespace inferscale {
[[noreturn]] void AssertFailed(const char* condition, const char* file, int line);
}

#define INFERSCALE_ASSERT(condition) \
  ((condition) ? (void)0 : ::inferscale::AssertFailed(#condition, __FILE__, __LINE__))
