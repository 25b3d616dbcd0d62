// What is behind the handles of the C interface. Handles keep what they stand on: an arena its device, a lease its
// arena. The tables are never destroyed: when a process ends, its driver may be gone before them.
#pragma once

#include <memory>

#include "capi/backend.h"
#include "capi/handle_table.h"
#include "capi/transfer.h"
#include "inferscale/inferscale.h"
#include "store/kv_arena.h"

namespace inferscale::capi {

struct Arena {
  Arena(std::shared_ptr<Backend> on, std::unique_ptr<ArenaMemory> memory)
      : backend(std::move(on)), records(std::make_unique<KvArena>(std::move(memory))) {}
  ~Arena() {
    const OnDevice on(*backend);
    records.reset();
  }
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  const std::shared_ptr<Backend> backend;
  std::unique_ptr<KvArena> records;
};

struct Lease {
  Lease(std::shared_ptr<Arena> of, ArenaLease pins) : arena(std::move(of)), lease(std::move(pins)) {}
  ~Lease() {
    const OnDevice on(*arena->backend);
    lease = {};
  }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  const std::shared_ptr<Arena> arena;
  ArenaLease lease;
};

using Devices = HandleTable<Backend, inferscale_device>;
using Arenas = HandleTable<Arena, inferscale_arena>;
using Leases = HandleTable<Lease, inferscale_lease>;
using Transfers = HandleTable<Transfer, inferscale_transfer>;

Devices& AllDevices();
Arenas& AllArenas();
Leases& AllLeases();
Transfers& AllTransfers();

}  // namespace inferscale::capi
