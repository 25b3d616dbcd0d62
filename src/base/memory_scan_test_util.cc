#include "base/memory_scan_test_util.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <fstream>
#include <random>
#include <vector>

#include "base/assert.h"

namespace inferscale {

HiddenBytes HiddenBytes::Word() {
  std::random_device device;
  HiddenBytes hidden;
  for (int i = 0; i < 24; ++i) hidden.inverted_ += static_cast<char>(~('a' + device() % 26));
  return hidden;
}

HiddenBytes HiddenBytes::Of(std::string& bytes) {
  HiddenBytes hidden;
  for (const char byte : bytes) hidden.inverted_ += static_cast<char>(~byte);
  Wipe(bytes);
  return hidden;
}

std::string HiddenBytes::Show() const {
  std::string shown;
  shown.reserve(inverted_.size());
  for (const char byte : inverted_) shown += static_cast<char>(~byte);
  return shown;
}

size_t HiddenBytes::CountInMemory() const {
  const size_t size = inverted_.size();
  std::vector<char> chunk(1 << 20);
  const int memory = ::open("/proc/self/mem", O_RDONLY);
  INFERSCALE_ASSERT(memory >= 0);
  size_t count = 0;
  const auto is_here = [&](const char* at) {
    for (size_t i = 0; i < size; ++i)
      if (at[i] != static_cast<char>(~inverted_[i])) return false;
    return true;
  };
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    unsigned long begin = 0, end = 0;
    char rights = 0;
    if (sscanf(line.c_str(), "%lx-%lx %c", &begin, &end, &rights) != 3 || rights != 'r') continue;
    const auto own = reinterpret_cast<unsigned long>(chunk.data());
    // Chunks overlap, so that nothing is cut. The own buffer has copies of what was read.
    for (unsigned long at = begin; at < end; at += chunk.size() - size) {
      const ssize_t got =
          ::pread(memory, chunk.data(), std::min<size_t>(chunk.size(), end - at), static_cast<off_t>(at));
      for (ssize_t i = 0; i + static_cast<ssize_t>(size) <= got; ++i) {
        const unsigned long place = at + static_cast<unsigned long>(i);
        const bool is_own = place + size > own && place < own + chunk.size();
        if (!is_own && is_here(chunk.data() + i)) ++count;
      }
    }
  }
  ::close(memory);
  explicit_bzero(chunk.data(), chunk.size());
  return count;
}

void Wipe(std::string& text) { explicit_bzero(text.data(), text.size()); }

}  // namespace inferscale
