#include "store/segment_store_test_util.h"

#include <gtest/gtest.h>

#include <atomic>
#include <iterator>

namespace inferscale {

namespace fs = std::filesystem;

TestFolder::TestFolder(const std::string& name, On on) {
  static std::atomic<int> counter{0};
  const bool in_memory = on == On::kMemory && ::access("/dev/shm", W_OK) == 0;
  path_ = fs::path(in_memory ? "/dev/shm" : testing::TempDir()) /
          (name + "." + std::to_string(::getpid()) + "." + std::to_string(counter++));
  fs::remove_all(path_);
  fs::create_directories(path_);
}

TestFolder::~TestFolder() {
  std::error_code ec;
  fs::remove_all(path_, ec);
}

std::string TestRecord(uint64_t record, size_t bytes) {
  std::mt19937_64 random(record * 0x9E3779B97F4A7C15ull + 1);
  std::string out;
  out.reserve(bytes + 8);
  while (out.size() < bytes) {
    const uint64_t word = random() | 0x0100000000000001ull;  // never eight zeros
    out.append(reinterpret_cast<const char*>(&word), sizeof(word));
  }
  out.resize(bytes);
  return out;
}

std::string Slurp(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void Spill(const fs::path& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string SlurpAll(const fs::path& folder) {
  std::string all;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all += Slurp(entry.path());
  return all;
}

}  // namespace inferscale
