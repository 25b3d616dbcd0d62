#include "store/record_folder.h"

#include <algorithm>
#include <chrono>

#include "base/limits.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::hours kAbandonedAfter{1};  // writing a record takes milliseconds

void AddFile(const fs::directory_entry& entry, std::vector<RecordFile>& files) {
  std::error_code ec;
  const fs::file_time_type used = entry.last_write_time(ec);
  if (ec) return;  // another process has deleted it
  if (entry.path().filename().string().find(".tmp.") != std::string::npos) {
    if (fs::file_time_type::clock::now() - used > kAbandonedAfter) fs::remove(entry.path(), ec);
    return;
  }
  const uint64_t bytes = entry.file_size(ec);
  if (!ec && entry.path().extension() == ".kv") files.push_back({entry.path(), bytes, used});
}

}  // namespace

std::vector<RecordFile> ListRecordFiles(const fs::path& folder) {
  std::vector<RecordFile> files;
  std::error_code ec;
  for (fs::directory_iterator part(folder, ec), end; !ec && part != end; part.increment(ec)) {
    std::error_code part_ec;
    if (part->path().filename().string().size() != 2 || !part->is_directory(part_ec)) continue;
    for (fs::directory_iterator file(part->path(), part_ec); !part_ec && file != end; file.increment(part_ec))
      AddFile(*file, files);
  }
  return files;
}

uint64_t DefaultRecordBudget(const fs::path& folder, uint64_t used_bytes) {
  std::error_code ec;
  const fs::space_info space = fs::space(folder, ec);
  if (ec) return limits::kRecordCacheBytes;
  return std::min<uint64_t>(limits::kRecordCacheBytes, (space.available + used_bytes) / 10);
}

size_t EvictOldest(std::vector<RecordFile>& files, uint64_t target_bytes) {
  std::sort(files.begin(), files.end(), [](const RecordFile& a, const RecordFile& b) { return a.used < b.used; });
  uint64_t used = SumBytes(files);
  size_t evicted = 0;
  while (evicted < files.size() && used > target_bytes) {
    std::error_code ec;
    fs::remove(files[evicted].path, ec);  // gone already: as good
    used -= files[evicted++].bytes;
  }
  files.erase(files.begin(), files.begin() + static_cast<std::ptrdiff_t>(evicted));
  return evicted;
}

uint64_t SumBytes(const std::vector<RecordFile>& files) {
  uint64_t sum = 0;
  for (const RecordFile& file : files) sum += file.bytes;
  return sum;
}

}  // namespace inferscale
