// A record's serialised bytes (core/kv_record.h: ParseRecord), in a pooled buffer or in memory of the caller's.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "core/payload_pool.h"

namespace inferscale {

// Move-only.
class RecordBytes {
 public:
  // A pooled buffer, 64-byte aligned, not initialised.
  explicit RecordBytes(size_t size)
      : bytes_(static_cast<std::byte*>(TakePayloadBuffer(size)), size), owned_(bytes_.data(), GiveBack{size}) {}
  // The caller's, which outlives this.
  explicit RecordBytes(std::span<std::byte> bytes) : bytes_(bytes) {}

  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  std::string_view view() const { return {reinterpret_cast<const char*>(bytes_.data()), bytes_.size()}; }

 private:
  struct GiveBack {
    size_t size;
    void operator()(std::byte* buffer) const { GivePayloadBuffer(buffer, size); }
  };
  std::span<std::byte> bytes_;
  std::unique_ptr<std::byte, GiveBack> owned_{nullptr, GiveBack{0}};
};

}  // namespace inferscale
