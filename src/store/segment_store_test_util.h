// Records with recognisable content, and a segment store's folder for a test.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>

#include "store/segment_store.h"

namespace inferscale {

// Removed with what is in it. kMemory: where there is such a file system; a thousand stores are opened in a second.
enum class On : uint8_t { kDisk, kMemory };
class TestFolder {
 public:
  explicit TestFolder(const std::string& name, On on = On::kDisk);
  ~TestFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

// The content of a record is made from its number: no two are alike anywhere. [bytes]
std::string TestRecord(uint64_t record, size_t bytes);

std::string Slurp(const std::filesystem::path& path);
void Spill(const std::filesystem::path& path, const std::string& bytes);

// Every file below the folder, one after another.
std::string SlurpAll(const std::filesystem::path& folder);

}  // namespace inferscale
