// The files of a record cache as a whole: counting them, and evicting the oldest.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace inferscale {

struct RecordFile {
  std::filesystem::path path;
  uint64_t bytes = 0;
  std::filesystem::file_time_type used;  // last use: the modification time, which Find sets
};

// Every record file below folder. Removes temporary files that a crashed process left more than an hour ago. What
// cannot be read is left out.
std::vector<RecordFile> ListRecordFiles(const std::filesystem::path& folder);

// The budget when none is given: limits::kRecordCacheBytes or a tenth of the space that would be free without the
// cache, the smaller.
uint64_t DefaultRecordBudget(const std::filesystem::path& folder, uint64_t used_bytes);

// Deletes the files not used for the longest time until at most target_bytes are left. Returns how many.
size_t EvictOldest(std::vector<RecordFile>& files, uint64_t target_bytes);

uint64_t SumBytes(const std::vector<RecordFile>& files);

}  // namespace inferscale
