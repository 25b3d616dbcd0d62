// Checks a KvBatch once, so that the kernels need not, and lays it out for them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "kernels/kv_plan.h"

namespace inferscale::kernels {

enum class KvDirection : uint8_t { kInject, kExtract };

// A plan laid out in some memory; copy bytes() bytes of it anywhere, and View(there) is the same plan.
class KvPlan {
 public:
  KvPlan() = default;
  // `host`: a view whose pointers lie in [base, base + bytes).
  KvPlan(const KvPlanView& host, const uint8_t* base, size_t bytes) : host_(host), base_(base), bytes_(bytes) {}

  size_t bytes() const { return bytes_; }
  // base: 16-byte aligned, on the host or on the device.
  KvPlanView View(uint8_t* base) const;
  // Of the status words [source_count], zero in a fresh plan: to copy back after the launch.
  size_t status_offset() const { return reinterpret_cast<const uint8_t*>(host_.status) - base_; }
  uint32_t source_count() const { return host_.source_count; }

 private:
  KvPlanView host_;
  const uint8_t* base_ = nullptr;
  size_t bytes_ = 0;
};

// Bytes that the batch's plan takes: 88 per layer, 84 per record, 40 per span, 88 per 16 tokens, 4 per block. About
// 17 KB for 50 facts of an 8B model.
size_t KvPlanBytes(const KvBatch& batch);

// Writes the plan into `out` (16-byte aligned, KvPlanBytes or more, pinned if it is to be copied to a device without a
// wait). Allocates nothing. kInvalidArgument: names what is wrong, nothing may be launched; kTooLarge: beyond limits.h.
//
// Checked: every index and range; payload sizes; block numbers against the view's block count; rows of rope tables;
// calibrations; alignment that the vector kernels need (else the plan says so and runs on the slow one). Not checked:
// that addresses are what they claim, and that two requests do not share a block.
Result<KvPlan> BuildKvPlan(const KvBatch& batch, KvDirection direction, std::span<uint8_t> out);

}  // namespace inferscale::kernels
