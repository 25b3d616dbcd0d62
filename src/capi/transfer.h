// A cache and the ring of plans whose launches move records into it and out of it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "capi/backend.h"
#include "capi/given_batch.h"
#include "inferscale/inferscale.h"

namespace inferscale::capi {

// A slot of the ring is taken by a launch and free again when its ticket was collected: no status word is lost, and
// nothing is waited for. Thread-safe.
class Transfer {
 public:
  // Takes all memory that launches will need.
  static Result<std::shared_ptr<Transfer>> Open(std::shared_ptr<Backend> backend,
                                                const inferscale_transfer_options* options);
  ~Transfer();
  Transfer(const Transfer&) = delete;
  Transfer& operator=(const Transfer&) = delete;

  // The ticket. kInUse: the ring is full.
  Result<uint64_t> Launch(const inferscale_batch* batch, kernels::KvDirection direction, void* stream);
  // INFERSCALE_OK or INFERSCALE_PENDING.
  Result<inferscale_status> Poll(uint64_t ticket, uint32_t* words, uint32_t word_count);
  Result<inferscale_status> Wait(uint64_t ticket, uint32_t* words, uint32_t word_count);

 private:
  struct Slot {
    std::unique_ptr<PlanSlot> plan;
    uint64_t ticket = 0;  // of a launch that was not collected; 0: free
    uint32_t records = 0;
  };
  Transfer(std::shared_ptr<Backend> backend, GivenBatch batch);
  // With mutex_ held.
  Slot* FreeSlot();
  Result<Slot*> Find(uint64_t ticket, const uint32_t* words, uint32_t word_count);

  const std::shared_ptr<Backend> backend_;
  std::mutex mutex_;
  GivenBatch batch_;
  std::vector<Slot> ring_;
  uint64_t launches_ = 0;
};

}  // namespace inferscale::capi
