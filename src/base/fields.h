// Numbers at fixed places of a file format: little-endian, as this machine has them, digests with their high half
// first.
#pragma once

#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/assert.h"

namespace inferscale {

static_assert(std::endian::native == std::endian::little);

template <class T>
requires std::is_trivially_copyable_v<T>
void PutField(std::span<char> bytes, size_t at, const T& value) {
  INFERSCALE_ASSERT(at + sizeof(T) <= bytes.size());
  std::memcpy(bytes.data() + at, &value, sizeof(T));
}

template <class T>
requires std::is_trivially_copyable_v<T> T GetField(std::string_view bytes, size_t at) {
  INFERSCALE_ASSERT(at + sizeof(T) <= bytes.size());
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof(T));
  return value;
}

}  // namespace inferscale
