#include "base/hash.h"

#include <string.h>
#define XXH_STATIC_LINKING_ONLY  // the size of a state
#include <xxhash.h>

#include <memory>

#include "base/assert.h"

namespace inferscale {

namespace {
Hash128 FromXxh(const XXH128_hash_t& h) { return {h.high64, h.low64}; }

// A state keeps the last 256 bytes that went through it: words and token ids of facts, which must not outlive them.
struct ClearState {
  void operator()(XXH3_state_t* state) const {
    explicit_bzero(state, sizeof *state);
    XXH3_freeState(state);
  }
};
using StatePtr = std::unique_ptr<XXH3_state_t, ClearState>;

StatePtr MakeState() {
  StatePtr state(XXH3_createState());
  INFERSCALE_ASSERT(state != nullptr);
  return state;
}
}  // namespace

std::string Hash128::Hex() const {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out(32, '0');
  for (int i = 0; i < 16; ++i) {
    out[15 - i] = kDigits[(high >> (4 * i)) & 15];
    out[31 - i] = kDigits[(low >> (4 * i)) & 15];
  }
  return out;
}

std::optional<Hash128> Hash128::FromHex(std::string_view hex) {
  if (hex.size() != 32) return std::nullopt;
  Hash128 h;
  for (size_t i = 0; i < 32; ++i) {
    const char c = hex[i];
    uint64_t digit;
    if (c >= '0' && c <= '9')
      digit = c - '0';
    else if (c >= 'a' && c <= 'f')
      digit = c - 'a' + 10;
    else
      return std::nullopt;
    uint64_t& half = i < 16 ? h.high : h.low;
    half = (half << 4) | digit;
  }
  return h;
}

Hash128 HashBytes(const void* data, size_t size) { return FromXxh(XXH3_128bits(data, size)); }
uint64_t Checksum64(const void* data, size_t size) { return XXH3_64bits(data, size); }

uint64_t Checksum64(std::span<const std::string_view> pieces) {
  if (pieces.size() == 1) return Checksum64(pieces[0].data(), pieces[0].size());
  const StatePtr state = MakeState();
  XXH3_64bits_reset(state.get());
  for (const std::string_view piece : pieces) XXH3_64bits_update(state.get(), piece.data(), piece.size());
  return XXH3_64bits_digest(state.get());
}

struct Hasher::State {
  StatePtr xxh = MakeState();
};

Hasher::Hasher() : state_(std::make_unique<State>()) { XXH3_128bits_reset(state_->xxh.get()); }
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

Hasher& Hasher::Raw(const void* data, size_t size) {
  XXH3_128bits_update(state_->xxh.get(), data, size);
  return *this;
}
Hasher& Hasher::U32(uint32_t value) { return Raw(&value, sizeof value); }
Hasher& Hasher::U64(uint64_t value) { return Raw(&value, sizeof value); }
Hasher& Hasher::F32(float value) { return Raw(&value, sizeof value); }
Hasher& Hasher::Str(std::string_view text) { return U64(text.size()).Raw(text.data(), text.size()); }
Hasher& Hasher::Ids(std::span<const int32_t> ids) { return U64(ids.size()).Raw(ids.data(), ids.size_bytes()); }
Hasher& Hasher::Digest(const Hash128& digest) { return U64(digest.high).U64(digest.low); }
Hash128 Hasher::Finish() const { return FromXxh(XXH3_128bits_digest(state_->xxh.get())); }

}  // namespace inferscale
