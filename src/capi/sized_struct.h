// Structs that begin with their size, so that callers and libraries of different minor versions understand each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>

#include "base/error.h"

namespace inferscale::capi {

// Bytes that a struct given by a caller has, after a look at its size. kFirst: its size in the first version.
// kVersionUnsupported: it has fields, not 0, that this library does not know.
template <class Struct, size_t kFirst = sizeof(Struct)>
Result<size_t> GivenBytes(const Struct* given, const char* name) {
  if (given == nullptr) return Fail(ErrorCode::kInvalidArgument, std::string(name) + " is null");
  constexpr uint32_t kMost = 64 * 1024;  // no struct of ours will ever be as large: the field was not set
  const uint32_t bytes = given->struct_bytes;
  if (bytes < kFirst || bytes > kMost) {
    return Fail(ErrorCode::kInvalidArgument, std::string(name) + ": struct_bytes is " + std::to_string(bytes) +
                                                 ", set it to the struct's size, " + std::to_string(sizeof(Struct)));
  }
  const auto* data = reinterpret_cast<const uint8_t*>(given);
  if (bytes > sizeof(Struct) && std::any_of(data + sizeof(Struct), data + bytes, [](uint8_t b) { return b != 0; })) {
    return Fail(ErrorCode::kVersionUnsupported, std::string(name) + " has fields that this library does not know: " +
                                                    "leave them 0, or use a newer libinferscale");
  }
  return bytes;
}

// The struct as this library knows it; what the caller does not know is 0.
template <class Struct, size_t kFirst = sizeof(Struct)>
Result<Struct> TakeStruct(const Struct* given, const char* name) {
  TRY_ASSIGN(const size_t bytes, (GivenBytes<Struct, kFirst>(given, name)));
  Struct taken{};
  std::memcpy(&taken, given, std::min(bytes, sizeof taken));
  if (taken.reserved != 0) return Fail(ErrorCode::kInvalidArgument, std::string(name) + ": reserved is not 0");
  return taken;
}

}  // namespace inferscale::capi
