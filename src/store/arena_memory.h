// The memory of a KvArena: one allocation, filled on a stream of its own beside the stream that reads it (the compute
// stream, one per arena). On a GPU: store/cuda/device_arena_memory.h. In host memory, with the same results and nothing
// to wait for: HostArenaMemory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/kv_payload.h"

namespace inferscale {

// A record to be put at `offset`: its stamp there, its payload kernels::kStampBytes behind it.
struct ArenaLoad {
  uint64_t offset = 0;            // a multiple of kArenaSlabBytes
  const uint8_t* from = nullptr;  // in host memory that the device may read; stays as it is until Finish, or a stamp
  uint64_t bytes = 0;             // of the payload, a multiple of 16
  kernels::RecordStamp stamp;
  // The stamp of the memory at `from`, looked at before and after the copy: if it is not `stamp` both times, no stamp
  // is written, so that every use of the record fails. Null: memory that nobody can reuse.
  const kernels::RecordStamp* origin = nullptr;
};

// 16 KiB: half of one is lost per record, 2 % of 350 KB (a 135M model's fact as int8) and 0.5 % of an 8B model's.
inline constexpr uint64_t kArenaSlabBytes = 16 << 10;

// Functions are called by one thread at a time. Errors: kEngine, with the device's own words.
class ArenaMemory {
 public:
  virtual ~ArenaMemory() = default;  // waits for what is under way

  virtual uint8_t* base() const = 0;  // an address of the device
  virtual uint64_t size() const = 0;

  // A point in the compute stream, behind all that is launched there so far; rising numbers from 1. If that fails, so
  // will the next call that can say so.
  virtual uint64_t MarkUses() = 0;

  // These run one after the other on the memory's own stream.
  // The compute stream's work up to a mark.
  virtual Status WaitForUses(uint64_t mark) = 0;
  virtual Status Load(std::span<const ArenaLoad> loads) = 0;
  virtual Status Wipe(uint64_t offset, uint64_t bytes) = 0;  // zeros

  // What the compute stream is given from now on runs behind all of it.
  virtual Status ReadyForUses() = 0;
  // Returns when all of it is done.
  virtual Status Finish() = 0;
};

// kNoSpace: no memory of that size.
Result<std::unique_ptr<ArenaMemory>> MakeHostArenaMemory(uint64_t bytes);

}  // namespace inferscale
