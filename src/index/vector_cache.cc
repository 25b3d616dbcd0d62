#include "index/vector_cache.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "base/fields.h"
#include "base/file.h"
#include "base/limits.h"

namespace inferscale {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kMagic = "\x89ISV\r\n\x1A\n";  // text-mode transfers damage it visibly
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderBytes = 48;
constexpr size_t kHeaderChecked = kHeaderBytes - sizeof(uint64_t);  // the checksum covers what is before it
constexpr size_t kDigestBytes = 16;

std::string MakeHeader(const Hash128& embedder, uint32_t dim) {
  std::string header(kHeaderBytes, '\0');
  std::copy(kMagic.begin(), kMagic.end(), header.begin());
  PutField(header, kMagic.size(), kVersion);
  PutField(header, 12, dim);
  PutField(header, 16, embedder);
  PutField(header, kHeaderChecked, Checksum64(header.data(), kHeaderChecked));
  return header;
}

bool IsFinite(std::span<const float> vector) {
  for (const float x : vector)
    if (!std::isfinite(x)) return false;
  return true;
}

// Why a file with this beginning cannot be used, or "".
std::string WhyUnusable(std::string_view bytes, std::string_view expected_header) {
  if (!bytes.starts_with(kMagic)) return "is not a vector cache";
  if (bytes.size() < kHeaderBytes) return "is cut short";
  if (const auto version = GetField<uint32_t>(bytes, kMagic.size()); version != kVersion)
    return "has format version " + std::to_string(version) + ", not " + std::to_string(kVersion);
  if (GetField<uint64_t>(bytes, kHeaderChecked) != Checksum64(bytes.data(), kHeaderChecked)) return "is damaged";
  if (bytes.substr(0, kHeaderBytes) != expected_header) return "was made by another embedder";
  return "";
}

// Other processes may use the same file; the kernel drops the lock when one of them dies.
class FileLock {
 public:
  explicit FileLock(int fd) : fd_(fd) {
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
    }
  }
  ~FileLock() { ::flock(fd_, LOCK_UN); }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

Status WriteAt(int fd, std::string_view bytes, uint64_t offset, const fs::path& path) {
  while (!bytes.empty()) {
    const ssize_t n = ::pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return tl::unexpected<Error>(ErrnoError(n < 0 ? errno : EIO, "write", path));
    bytes.remove_prefix(static_cast<size_t>(n));
    offset += static_cast<uint64_t>(n);
  }
  return {};
}

}  // namespace

VectorCache::VectorCache(fs::path path, const Hash128& embedder, uint32_t dim)
    : path_(std::move(path)),
      embedder_(embedder),
      dim_(dim),
      row_bytes_(kDigestBytes + dim * sizeof(float) + sizeof(uint64_t)) {}

VectorCache::~VectorCache() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::unique_ptr<VectorCache>> VectorCache::Open(const fs::path& path, const Hash128& embedder, uint32_t dim) {
  if (path.empty()) return Fail(ErrorCode::kInvalidArgument, "the vector cache needs a path");
  if (dim < 1 || dim > limits::kEmbedDimMax)
    return Fail(ErrorCode::kInvalidArgument, "a vector cache cannot have " + std::to_string(dim) + " dimensions");
  std::unique_ptr<VectorCache> cache(new VectorCache(path, embedder, dim));  // private constructor
  if (const Status opened = cache->OpenFile(); !opened) cache->StopStoring(opened.error());
  if (const Status loaded = cache->Load(); !loaded) cache->StopStoring(loaded.error());
  return cache;
}

Status VectorCache::OpenFile() {
  if (path_.has_parent_path()) TRY(MakeDirectories(path_.parent_path()));
  if (fd_ >= 0) ::close(fd_);
  fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd_ < 0) return tl::unexpected<Error>(ErrnoError(errno, "open", path_));
  struct stat st {};
  if (::fstat(fd_, &st) == 0 && S_ISREG(st.st_mode)) return {};
  ::close(std::exchange(fd_, -1));
  return Fail(ErrorCode::kCorrupt, path_.string() + " is not a regular file: delete it");
}

Status VectorCache::Load() {
  TRY_ASSIGN(const std::string replacement, ReadContent());
  if (replacement.empty() || !read_only_reason_.empty()) return {};
  // Another process may hold the old file open: it goes on writing into that, and the two never mix.
  const std::string_view content = replacement;
  TRY(WriteFileAtomic(path_, std::span(&content, 1), Durability::kFast));
  return OpenFile();
}

// What the file should be replaced by, or "".
Result<std::string> VectorCache::ReadContent() {
  std::optional<FileLock> lock;
  if (fd_ >= 0) lock.emplace(fd_);
  std::error_code ec;
  if (fd_ < 0 && !std::filesystem::is_regular_file(path_, ec)) return "";  // a pipe would have us wait
  const std::string header = MakeHeader(embedder_, dim_);
  const Result<std::string> read = ReadFile(path_, kHeaderBytes + limits::kVectorCacheRows * row_bytes_);
  if (!read && !read_only_reason_.empty()) return "";  // told already
  if (!read && read.error().code != ErrorCode::kTooLarge) return tl::unexpected<Error>(read.error());
  if (read && read->empty() && fd_ >= 0) {
    TRY(WriteAt(fd_, header, 0, path_));
    return "";
  }
  if (const std::string why = read ? WhyUnusable(*read, header) : "is full"; !why.empty()) {
    messages_.push_back(path_.string() + " " + why + ": its vectors are computed again");
    return header;
  }
  std::string good = header;
  const size_t damaged = ReadRows(std::string_view(*read).substr(kHeaderBytes), &good);
  if (damaged == 0) return "";
  messages_.push_back(path_.string() + ": " + std::to_string(damaged) +
                      " damaged vectors were dropped and are computed again");
  return good;
}

// Takes the rows that are whole; their bytes are added to good. Returns how many were not, a torn last one included.
size_t VectorCache::ReadRows(std::string_view bytes, std::string* good) {
  size_t damaged = bytes.size() % row_bytes_ != 0 ? 1 : 0;
  std::vector<float> vector(dim_);
  for (; bytes.size() >= row_bytes_; bytes.remove_prefix(row_bytes_)) {
    const size_t checked = row_bytes_ - sizeof(uint64_t);
    std::memcpy(vector.data(), bytes.data() + kDigestBytes, dim_ * sizeof(float));
    if (GetField<uint64_t>(bytes, checked) != Checksum64(bytes.data(), checked) || !IsFinite(vector)) {
      ++damaged;
      continue;
    }
    Remember(GetField<Hash128>(bytes, 0), vector);
    good->append(bytes.substr(0, row_bytes_));
  }
  return damaged;
}

void VectorCache::Remember(const Hash128& text, std::span<const float> vector) {
  if (!rows_.emplace(text, rows_.size()).second) return;  // two processes computed the same one
  vectors_.insert(vectors_.end(), vector.begin(), vector.end());
}

std::span<const float> VectorCache::Find(const Hash128& text) const {
  const auto found = rows_.find(text);
  if (found == rows_.end()) return {};
  return {vectors_.data() + found->second * dim_, dim_};
}

Status VectorCache::Append(const Hash128& text, std::span<const float> vector) {
  if (vector.size() != dim_ || !IsFinite(vector))
    return Fail(ErrorCode::kInvalidArgument, "not a vector of " + std::to_string(dim_) + " finite numbers");
  if (rows_.contains(text)) return {};
  Remember(text, vector);
  if (!read_only_reason_.empty()) return {};
  std::string row(row_bytes_, '\0');
  PutField(row, 0, text);
  std::memcpy(row.data() + kDigestBytes, vector.data(), vector.size_bytes());
  const size_t checked = row_bytes_ - sizeof(uint64_t);
  PutField(row, checked, Checksum64(row.data(), checked));
  if (const Status written = Write(row); !written) StopStoring(written.error());
  return {};
}

Status VectorCache::Write(std::string_view row) {
  const FileLock lock(fd_);
  struct stat st {};
  if (::fstat(fd_, &st) != 0) return tl::unexpected<Error>(ErrnoError(errno, "stat", path_));
  const auto size = static_cast<uint64_t>(st.st_size);
  // Behind the last whole row: a process that died while it wrote left a part, which this overwrites.
  const uint64_t whole = size < kHeaderBytes ? 0 : (size - kHeaderBytes) / row_bytes_;
  if (size < kHeaderBytes) return Fail(ErrorCode::kCorrupt, path_.string() + " was cut short by someone else");
  if (whole >= limits::kVectorCacheRows)
    return Fail(ErrorCode::kTooLarge, path_.string() + " is full (" + std::to_string(whole) + " vectors): delete it");
  const uint64_t end = kHeaderBytes + whole * row_bytes_;
  Status written = WriteAt(fd_, row, end, path_);
  if (!written && ::ftruncate(fd_, static_cast<off_t>(end)) != 0) return written;  // a part left is dropped on reading
  return written;
}

void VectorCache::StopStoring(const Error& error) {
  read_only_reason_ = error.message;
  messages_.push_back("vectors are kept in memory only: " + error.message);
}

std::vector<std::string> VectorCache::TakeMessages() { return std::exchange(messages_, {}); }

}  // namespace inferscale
