// 128-bit XXH3 digests: ids, record keys, checksums. Not for input an attacker may choose to collide (HMAC is).
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace inferscale {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const Hash128&) const = default;

  std::string Hex() const;  // 32 lower-case digits, high half first
  static std::optional<Hash128> FromHex(std::string_view hex);
};

Hash128 HashBytes(const void* data, size_t size);
inline Hash128 HashBytes(std::string_view bytes) { return HashBytes(bytes.data(), bytes.size()); }
uint64_t Checksum64(const void* data, size_t size);  // XXH3-64
// Of the concatenation.
uint64_t Checksum64(std::span<const std::string_view> pieces);

// Streaming digest of typed fields. Variable-length fields are length-prefixed, so that ("ab","c") differs from
// ("a","bc"). The result depends on the order of the calls and on nothing of the machine (little-endian).
class Hasher {
 public:
  Hasher();
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  Hasher& U32(uint32_t value);
  Hasher& U64(uint64_t value);
  Hasher& F32(float value);
  Hasher& Str(std::string_view text);
  Hasher& Ids(std::span<const int32_t> ids);  // token ids
  Hasher& Digest(const Hash128& digest);
  Hasher& Raw(const void* data, size_t size);  // no length prefix: for bytes whose size is hashed elsewhere
  Hash128 Finish() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inferscale

template <>
struct std::hash<inferscale::Hash128> {
  size_t operator()(const inferscale::Hash128& h) const noexcept { return h.low ^ (h.high * 0x9E3779B97F4A7C15ull); }
};
