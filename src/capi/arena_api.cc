// The arena and its leases.
#include <algorithm>
#include <vector>

#include "base/limits.h"
#include "capi/api_call.h"
#include "capi/given_batch.h"
#include "capi/handles.h"
#include "capi/sized_struct.h"
#include "inferscale/inferscale.h"

namespace inferscale::capi {
namespace {

tl::unexpected<Error> Bad(const char* what) { return Fail(ErrorCode::kInvalidArgument, what); }

// function(arena), on the arena's device.
template <class Function>
inferscale_status WithArena(const inferscale_arena* handle, Function function) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Arena> arena, AllArenas().Find(handle));
    const OnDevice on(*arena->backend);
    return function(*arena->records);
  });
}

Result<std::vector<ArenaRecord>> TakeRecords(const inferscale_arena_record* records, uint32_t count) {
  if (count > 0 && records == nullptr) return Bad("records are null, but counted");
  if (count > limits::kPlanSources) return Fail(ErrorCode::kTooLarge, "arena: too many records at once");
  std::vector<ArenaRecord> taken;
  taken.reserve(count);
  for (uint32_t i = 0; i < count; ++i) {
    const inferscale_arena_record& record = records[i];
    if (reinterpret_cast<uintptr_t>(record.origin) % alignof(kernels::RecordStamp) != 0) {
      return Bad("arena: a record's origin is not 16-byte aligned");
    }
    taken.push_back({ToStamp(record.stamp), static_cast<const uint8_t*>(record.payload), record.bytes,
                     ToStampAddress(record.origin)});
  }
  return taken;
}

void PutSlots(std::span<const ArenaSlot> slots, inferscale_slot* out) {
  std::transform(slots.begin(), slots.end(), out, [](const ArenaSlot& slot) -> inferscale_slot {
    return {slot.payload, reinterpret_cast<const inferscale_stamp*>(slot.stamp)};
  });
}

void PutGone(bool value, uint32_t* gone) {
  if (gone != nullptr) *gone = value ? 1 : 0;
}

}  // namespace
}  // namespace inferscale::capi

using namespace inferscale;
using namespace inferscale::capi;

inferscale_status inferscale_arena_open(inferscale_device* device, uint64_t bytes, void* stream,
                                        inferscale_arena** arena) {
  return Call([&]() -> Status {
    TRY_ASSIGN(std::shared_ptr<Backend> backend, AllDevices().Find(device));
    if (arena == nullptr) return Bad("arena is null: there is no place for the handle");
    TRY(backend->CheckStream(stream));
    const OnDevice on(*backend);
    TRY_ASSIGN(std::unique_ptr<ArenaMemory> memory, backend->MakeArenaMemory(bytes, stream));
    TRY_ASSIGN(*arena, AllArenas().Add(std::make_shared<Arena>(backend, std::move(memory))));
    return {};
  });
}

inferscale_status inferscale_arena_close(inferscale_arena* arena) {
  return Call([&]() -> Status {
    TRY(AllArenas().Take(arena));
    return {};
  });
}

inferscale_status inferscale_arena_acquire(inferscale_arena* handle, const inferscale_arena_record* records,
                                           uint32_t count, inferscale_slot* slots, inferscale_lease** lease) {
  return Call([&]() -> Status {
    TRY_ASSIGN(std::shared_ptr<Arena> arena, AllArenas().Find(handle));
    if (lease == nullptr || (count > 0 && slots == nullptr)) return Bad("lease or slots is null");
    TRY_ASSIGN(const std::vector<ArenaRecord> taken, TakeRecords(records, count));
    const OnDevice on(*arena->backend);
    TRY_ASSIGN(ArenaLease pins, arena->records->Acquire(taken));
    const auto held = std::make_shared<Lease>(std::move(arena), std::move(pins));
    TRY_ASSIGN(*lease, AllLeases().Add(held));
    PutSlots(held->lease.slots(), slots);
    return {};
  });
}

inferscale_status inferscale_lease_release(inferscale_lease* lease) {
  return Call([&]() -> Status {
    TRY(AllLeases().Take(lease));
    return {};
  });
}

inferscale_status inferscale_arena_prefetch(inferscale_arena* handle, const inferscale_arena_record* records,
                                            uint32_t count) {
  return WithArena(handle, [&](KvArena& arena) -> Status {
    TRY_ASSIGN(const std::vector<ArenaRecord> taken, TakeRecords(records, count));
    return arena.Prefetch(taken);
  });
}

inferscale_status inferscale_arena_evict(inferscale_arena* handle, const uint64_t id[2], uint32_t* gone) {
  return WithArena(handle, [&](KvArena& arena) -> Status {
    if (id == nullptr) return Bad("id is null");
    const uint64_t copy[2] = {id[0], id[1]};
    TRY_ASSIGN(const bool now, arena.Evict(copy));
    PutGone(now, gone);
    return {};
  });
}

inferscale_status inferscale_arena_clear(inferscale_arena* handle, uint32_t* gone) {
  return WithArena(handle, [&](KvArena& arena) -> Status {
    TRY_ASSIGN(const bool now, arena.Clear());
    PutGone(now, gone);
    return {};
  });
}

inferscale_status inferscale_arena_finish(inferscale_arena* handle) {
  return WithArena(handle, [](KvArena& arena) { return arena.Finish(); });
}

inferscale_status inferscale_arena_stats(inferscale_arena* handle, inferscale_arena_stats_data* out) {
  return WithArena(handle, [&](KvArena& arena) -> Status {
    TRY_ASSIGN(const size_t bytes, GivenBytes(out, "stats"));
    const ArenaStats s = arena.stats();
    const inferscale_arena_stats_data data{static_cast<uint32_t>(bytes),
                                           0,
                                           s.budget_bytes,
                                           s.used_bytes,
                                           s.pinned_bytes,
                                           s.records,
                                           s.hits,
                                           s.misses,
                                           s.loaded_bytes,
                                           s.evicted,
                                           s.wiped,
                                           s.refused};
    std::memcpy(out, &data, std::min(bytes, sizeof data));
    return {};
  });
}
