#include "capi/transfer.h"

#include <algorithm>
#include <string>
#include <utility>

namespace inferscale::capi {

using kernels::KvBatch;
using kernels::KvDirection;
using kernels::KvPlan;

Transfer::Transfer(std::shared_ptr<Backend> backend, GivenBatch batch)
    : backend_(std::move(backend)), batch_(std::move(batch)) {}

Transfer::~Transfer() {
  const OnDevice on(*backend_);
  ring_.clear();
}

Result<std::shared_ptr<Transfer>> Transfer::Open(std::shared_ptr<Backend> backend,
                                                 const inferscale_transfer_options* options) {
  TRY_ASSIGN(GivenBatch batch, GivenBatch::Make(options));
  const std::shared_ptr<Transfer> transfer =
      std::unique_ptr<Transfer>(new Transfer(std::move(backend), std::move(batch)));
  const OnDevice on(*transfer->backend_);
  for (size_t i = 0; i < transfer->batch_.ring(); ++i) {
    TRY_ASSIGN(std::unique_ptr<PlanSlot> plan, transfer->backend_->MakePlanSlot(transfer->batch_.PlanBytes()));
    transfer->ring_.push_back({.plan = std::move(plan)});
  }
  return transfer;
}

// The one that was used longest ago, when tickets are collected in order.
Transfer::Slot* Transfer::FreeSlot() {
  for (size_t i = 0; i < ring_.size(); ++i) {
    Slot& slot = ring_[(launches_ + i) % ring_.size()];
    if (slot.ticket == 0) return &slot;
  }
  return nullptr;
}

Result<uint64_t> Transfer::Launch(const inferscale_batch* given, KvDirection direction, void* stream) {
  std::lock_guard lock(mutex_);
  const OnDevice on(*backend_);
  TRY(backend_->CheckStream(stream));
  Slot* slot = FreeSlot();
  if (slot == nullptr) {
    return Fail(ErrorCode::kInUse, "the ring is full: " + std::to_string(ring_.size()) +
                                       " launches whose tickets were not collected; poll or wait for the oldest");
  }
  TRY_ASSIGN(const KvBatch* batch, batch_.Convert(given));
  TRY_ASSIGN(const KvPlan plan, kernels::BuildKvPlan(*batch, direction, slot->plan->buffer()));
  TRY(slot->plan->Launch(plan, direction, stream));
  // The slot can be read from the ticket, and no ticket comes twice.
  slot->ticket = ++launches_ * ring_.size() + (slot - ring_.data());
  slot->records = plan.source_count();
  return slot->ticket;
}

Result<Transfer::Slot*> Transfer::Find(uint64_t ticket, const uint32_t* words, uint32_t word_count) {
  Slot& slot = ring_[ticket % ring_.size()];
  if (ticket == 0 || slot.ticket != ticket) {
    return Fail(ErrorCode::kNotFound, "no such ticket: it was collected, or is of another transfer");
  }
  const bool drops = word_count == 0 && words == nullptr;
  if (!drops && (word_count != slot.records || (words == nullptr && word_count > 0))) {
    return Fail(ErrorCode::kInvalidArgument, "the launch has " + std::to_string(slot.records) + " records, but there " +
                                                 "is memory for " + std::to_string(words ? word_count : 0) + " words");
  }
  return &slot;
}

Result<inferscale_status> Transfer::Poll(uint64_t ticket, uint32_t* words, uint32_t word_count) {
  std::lock_guard lock(mutex_);
  TRY_ASSIGN(Slot * slot, Find(ticket, words, word_count));
  const OnDevice on(*backend_);
  const Result<bool> ended = slot->plan->Ended();
  if (ended && !*ended) return INFERSCALE_PENDING;
  slot->ticket = 0;
  if (!ended) return tl::unexpected<Error>(ended.error());
  if (word_count > 0) std::copy_n(slot->plan->words(), word_count, words);
  return INFERSCALE_OK;
}

Result<inferscale_status> Transfer::Wait(uint64_t ticket, uint32_t* words, uint32_t word_count) {
  PlanSlot* plan = nullptr;
  {
    std::lock_guard lock(mutex_);
    TRY_ASSIGN(Slot * slot, Find(ticket, words, word_count));
    plan = slot->plan.get();
  }
  // Unlocked. Should another thread collect the ticket and launch from this slot meanwhile, we wait for that one, and
  // then find the ticket gone.
  {
    const OnDevice on(*backend_);
    (void)plan->Wait();  // Poll says what went wrong
  }
  return Poll(ticket, words, word_count);
}

}  // namespace inferscale::capi
