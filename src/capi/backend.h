// What differs between the CPU and a GPU behind the C interface. A GPU's: capi/cuda/cuda_backend.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/error.h"
#include "kernels/kv_plan_builder.h"
#include "kernels/topk.h"
#include "store/arena_memory.h"

namespace inferscale::capi {

// The memory of one launch. Functions are called by one thread at a time, but Wait.
class PlanSlot {
 public:
  virtual ~PlanSlot() = default;  // waits for its launch

  virtual std::span<uint8_t> buffer() = 0;  // for BuildKvPlan, not while a launch is under way
  // plan: in buffer().
  virtual Status Launch(const kernels::KvPlan& plan, kernels::KvDirection direction, void* stream) = 0;
  virtual Result<bool> Ended() = 0;  // whether the launch has, and words() are valid
  virtual Status Wait() = 0;
  virtual const uint32_t* words() const = 0;  // [the plan's source_count]
};

// Errors: kEngine with the device's own words, kNoSpace. All but Enter and Leave are called between these two.
class Backend {
 public:
  virtual ~Backend() = default;

  // Makes the device the thread's current one; Leave takes what it returns.
  virtual int Enter() = 0;
  virtual void Leave(int previous) = 0;

  virtual Status CheckStream(void* stream) const = 0;
  virtual Status RegisterHost(void* memory, uint64_t bytes, bool read_only) = 0;
  virtual Status UnregisterHost(void* memory) = 0;
  virtual Result<std::unique_ptr<ArenaMemory>> MakeArenaMemory(uint64_t bytes, void* stream) = 0;
  virtual Result<std::unique_ptr<PlanSlot>> MakePlanSlot(size_t plan_bytes) = 0;
  virtual uint64_t TopkWorkspaceBytes(const kernels::TopkArgs& args) const = 0;
  // args: checked; workspace: large enough.
  virtual Status Topk(const kernels::TopkArgs& args, void* workspace, void* stream) = 0;
};

std::unique_ptr<Backend> MakeCpuBackend();

// The device is the current one while this lives.
class OnDevice {
 public:
  explicit OnDevice(Backend& backend) : backend_(backend), previous_(backend.Enter()) {}
  ~OnDevice() { backend_.Leave(previous_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  Backend& backend_;
  const int previous_;
};

}  // namespace inferscale::capi
