#include "store/cuda/device_arena_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/assert.h"
#include "store/cuda/arena_stamps.h"

namespace inferscale {
namespace {

using kernels::RecordStamp;

Status Check(int error, const char* what) {
  if (error == cudaSuccess) return {};
  return Fail(ErrorCode::kEngine,
              std::string("arena: ") + what + ": " + cudaGetErrorString(static_cast<cudaError_t>(error)));
}

class DeviceArenaMemory final : public ArenaMemory {
 public:
  explicit DeviceArenaMemory(cudaStream_t compute) : compute_(compute) {}
  ~DeviceArenaMemory() override {
    // Nothing can be done about errors here: a device that fails has lost the memory anyway.
    if (side_ != nullptr) cudaStreamSynchronize(side_);
    cudaStreamSynchronize(compute_);
    for (const cudaEvent_t event : marks_) {
      if (event != nullptr) cudaEventDestroy(event);
    }
    if (ready_ != nullptr) cudaEventDestroy(ready_);
    if (side_ != nullptr) cudaStreamDestroy(side_);
    cudaFree(base_);
  }
  DeviceArenaMemory(const DeviceArenaMemory&) = delete;
  DeviceArenaMemory& operator=(const DeviceArenaMemory&) = delete;

  Status Open(uint64_t bytes) {
    size_ = bytes / kArenaSlabBytes * kArenaSlabBytes;
    size_t free = 0, total = 0;
    TRY(Check(cudaMemGetInfo(&free, &total), "no device"));
    if (size_ == 0 || size_ > free || cudaMalloc(reinterpret_cast<void**>(&base_), size_) != cudaSuccess) {
      (void)cudaGetLastError();  // or the next call would report it again
      return Fail(ErrorCode::kNoSpace, "arena: " + std::to_string(bytes >> 20) + " MiB do not fit: the device has " +
                                           std::to_string(free >> 20) + " of " + std::to_string(total >> 20) +
                                           " MiB free");
    }
    TRY(Check(cudaStreamCreateWithFlags(&side_, cudaStreamNonBlocking), "stream"));
    TRY(Check(cudaEventCreateWithFlags(&ready_, cudaEventDisableTiming), "event"));
    for (cudaEvent_t& event : marks_) TRY(Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event"));
    return Wipe(0, size_);
  }

  uint8_t* base() const override { return base_; }
  uint64_t size() const override { return size_; }

  // A mark's event is used again kMarks later, for a later point of the same stream: waiting for it is still right.
  uint64_t MarkUses() override {
    const uint64_t mark = ++last_mark_;
    const int error = cudaEventRecord(marks_[mark % kMarks], compute_);
    if (error != cudaSuccess) mark_error_ = error;
    return mark;
  }

  Status WaitForUses(uint64_t mark) override {
    INFERSCALE_ASSERT(mark > 0 && mark <= last_mark_);
    TRY(Check(mark_error_, "mark"));
    return Check(cudaStreamWaitEvent(side_, marks_[mark % kMarks], 0), "wait");
  }

  Status Load(std::span<const ArenaLoad> loads) override {
    TRY(ForAllStamps(loads, OpenStamps));
    TRY(Copy(loads));
    return ForAllStamps(loads, SealStamps);
  }

  Status Wipe(uint64_t offset, uint64_t bytes) override {
    INFERSCALE_ASSERT(offset + bytes <= size_);
    return Check(cudaMemsetAsync(base_ + offset, 0, bytes, side_), "wipe");
  }

  Status ReadyForUses() override {
    TRY(Check(cudaEventRecord(ready_, side_), "event"));
    return Check(cudaStreamWaitEvent(compute_, ready_, 0), "wait");
  }

  Status Finish() override { return Check(cudaStreamSynchronize(side_), "copies"); }

 private:
  static constexpr uint64_t kMarks = 64;

  template <class Write>
  Status ForAllStamps(std::span<const ArenaLoad> loads, Write write) {
    for (size_t first = 0; first < loads.size(); first += SlotStamps::kMany) {
      SlotStamps stamps;
      stamps.count = static_cast<uint32_t>(std::min<size_t>(SlotStamps::kMany, loads.size() - first));
      for (uint32_t i = 0; i < stamps.count; ++i) {
        const ArenaLoad& load = loads[first + i];
        INFERSCALE_ASSERT(load.offset + kernels::kStampBytes + load.bytes <= size_);
        stamps.stamps[i] = {reinterpret_cast<RecordStamp*>(base_ + load.offset), load.origin, load.stamp};
      }
      TRY(Check(write(stamps, side_), "stamps"));
    }
    return {};
  }

  Status Copy(std::span<const ArenaLoad> loads) {
    to_.clear(), from_.clear(), sizes_.clear();
    for (const ArenaLoad& load : loads) {
      to_.push_back(base_ + load.offset + kernels::kStampBytes);
      from_.push_back(load.from);
      sizes_.push_back(load.bytes);
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    size_t first = 0;
    return Check(
        cudaMemcpyBatchAsync(to_.data(), from_.data(), sizes_.data(), loads.size(), &attributes, &first, 1, side_),
        "copy");
  }

  const cudaStream_t compute_;
  cudaStream_t side_ = nullptr;
  cudaEvent_t ready_ = nullptr;
  std::array<cudaEvent_t, kMarks> marks_{};
  uint64_t last_mark_ = 0;
  int mark_error_ = cudaSuccess;
  uint8_t* base_ = nullptr;
  uint64_t size_ = 0;
  // Of a batch; kept for the next.
  std::vector<void*> to_;
  std::vector<const void*> from_;
  std::vector<size_t> sizes_;
};

}  // namespace

Result<std::unique_ptr<ArenaMemory>> MakeDeviceArenaMemory(uint64_t bytes, CUstream_st* compute) {
  auto memory = std::make_unique<DeviceArenaMemory>(compute);
  TRY(memory->Open(bytes));
  return memory;
}

}  // namespace inferscale
