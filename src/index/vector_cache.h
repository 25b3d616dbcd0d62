// Vectors that were computed once, in one append-only file, so that a second call embeds nothing. Derived data: what
// cannot be read is told, dropped and computed again. File format: docs/formats/vector_cache.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "base/hash.h"

namespace inferscale {

class VectorCache {
 public:
  // path: the file; made with its folders when it is not there. embedder: Embedder::key(). A file that is damaged or of
  // another embedder is replaced by an empty one; where nothing can be written the cache works in memory and
  // read_only_reason() says why. kInvalidArgument: an empty path or a dimension out of bounds.
  static Result<std::unique_ptr<VectorCache>> Open(const std::filesystem::path& path, const Hash128& embedder,
                                                   uint32_t dim);
  ~VectorCache();
  VectorCache(const VectorCache&) = delete;
  VectorCache& operator=(const VectorCache&) = delete;

  // text: digest of the embedded text. [dim], or empty. Valid until the next Append.
  std::span<const float> Find(const Hash128& text) const;

  // Keeps a vector, in the file too while that can be written. It survives the end of this process at once; a power cut
  // may take the last ones. A text that is there already changes nothing. kInvalidArgument: a wrong length or a value
  // that is not finite.
  Status Append(const Hash128& text, std::span<const float> vector);

  size_t size() const { return rows_.size(); }
  // Empty while vectors are stored in the file.
  const std::string& read_only_reason() const { return read_only_reason_; }
  // What people should be told since the last call: a file that was damaged, or why nothing is stored.
  std::vector<std::string> TakeMessages();

 private:
  VectorCache(std::filesystem::path path, const Hash128& embedder, uint32_t dim);
  Status OpenFile();
  Status Load();
  Result<std::string> ReadContent();
  size_t ReadRows(std::string_view bytes, std::string* good);
  void Remember(const Hash128& text, std::span<const float> vector);
  Status Write(std::string_view row);
  void StopStoring(const Error& error);

  const std::filesystem::path path_;
  const Hash128 embedder_;
  const uint32_t dim_;
  const size_t row_bytes_;

  int fd_ = -1;
  std::vector<float> vectors_;                // [rows][dim]
  std::unordered_map<Hash128, size_t> rows_;  // digest of the text -> row of vectors_
  std::string read_only_reason_;
  std::vector<std::string> messages_;
};

}  // namespace inferscale
