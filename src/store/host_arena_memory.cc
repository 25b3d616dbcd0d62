#include <cstdlib>
#include <cstring>
#include <string>

#include "base/assert.h"
#include "store/arena_memory.h"

namespace inferscale {
namespace {

using kernels::RecordStamp;

struct Free {
  void operator()(uint8_t* p) const { std::free(p); }
};

class HostArenaMemory final : public ArenaMemory {
 public:
  HostArenaMemory(std::unique_ptr<uint8_t, Free> bytes, uint64_t size) : bytes_(std::move(bytes)), size_(size) {}

  uint8_t* base() const override { return bytes_.get(); }
  uint64_t size() const override { return size_; }
  uint64_t MarkUses() override { return ++marks_; }
  Status WaitForUses(uint64_t) override { return {}; }
  Status ReadyForUses() override { return {}; }
  Status Finish() override { return {}; }

  Status Load(std::span<const ArenaLoad> loads) override {
    for (const ArenaLoad& load : loads) {
      INFERSCALE_ASSERT(load.offset + kernels::kStampBytes + load.bytes <= size_);
      uint8_t* slot = bytes_.get() + load.offset;
      const RecordStamp none;
      std::memcpy(slot, &none, sizeof none);
      const bool before = load.origin == nullptr || *load.origin == load.stamp;
      std::memcpy(slot + kernels::kStampBytes, load.from, load.bytes);
      const bool after = load.origin == nullptr || *load.origin == load.stamp;
      if (before && after) std::memcpy(slot, &load.stamp, sizeof load.stamp);
    }
    return {};
  }

  Status Wipe(uint64_t offset, uint64_t bytes) override {
    INFERSCALE_ASSERT(offset + bytes <= size_);
    std::memset(bytes_.get() + offset, 0, bytes);
    return {};
  }

 private:
  std::unique_ptr<uint8_t, Free> bytes_;
  uint64_t size_;
  uint64_t marks_ = 0;
};

}  // namespace

Result<std::unique_ptr<ArenaMemory>> MakeHostArenaMemory(uint64_t bytes) {
  constexpr uint64_t kAlignment = 256;
  const uint64_t size = bytes / kArenaSlabBytes * kArenaSlabBytes;
  std::unique_ptr<uint8_t, Free> memory(static_cast<uint8_t*>(std::aligned_alloc(kAlignment, size)));
  if (size == 0 || memory == nullptr) {
    return Fail(ErrorCode::kNoSpace, "arena: no host memory of " + std::to_string(bytes) + " bytes");
  }
  std::memset(memory.get(), 0, size);
  return std::make_unique<HostArenaMemory>(std::move(memory), size);
}

}  // namespace inferscale
