// A program that needs a CPU feature which does not exist (tests/CMakeLists.txt): the check must end it before anything
// else of it runs; nothing may come to stdout (cpu_check_order.cmake looks).

#include <cstdio>

namespace {
struct Early {
  Early() { std::puts("too early"); }
} early;
}  // namespace

int main() {
  std::puts("main ran");
  return 0;
}
