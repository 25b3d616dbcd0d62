#include "capi/cuda/cuda_backend.h"

#include <cuda_runtime_api.h>

#include <string>

#include "kernels/cuda/kv_transfer.h"
#include "kernels/cuda/topk.h"
#include "store/cuda/arena_stamps.h"
#include "store/cuda/device_arena_memory.h"

namespace inferscale::capi {
namespace {

using kernels::KvDirection;

std::string Words(int error) {
  (void)cudaGetLastError();  // or a later launch would report it again
  return cudaGetErrorString(static_cast<cudaError_t>(error));
}

Status Check(int error, const char* what) {
  if (error == cudaSuccess) return {};
  return Fail(ErrorCode::kEngine, std::string(what) + ": " + Words(error));
}

// One buffer in pinned host memory, in which plans are built and status words come back, and its twin on the device.
class CudaPlanSlot final : public PlanSlot {
 public:
  CudaPlanSlot() = default;
  ~CudaPlanSlot() override {
    // Nothing can be done about errors here. Before any launch the event counts as over.
    if (ended_ != nullptr) {
      cudaEventSynchronize(ended_);
      cudaEventDestroy(ended_);
    }
    cudaFree(there_);
    cudaFreeHost(here_);
    (void)cudaGetLastError();
  }
  CudaPlanSlot(const CudaPlanSlot&) = delete;
  CudaPlanSlot& operator=(const CudaPlanSlot&) = delete;

  Status Open(size_t bytes) {
    bytes_ = bytes;
    if (const int error = cudaHostAlloc(reinterpret_cast<void**>(&here_), bytes, cudaHostAllocPortable);
        error != cudaSuccess) {
      return Fail(ErrorCode::kNoSpace, "no " + std::to_string(bytes) + " bytes of pinned memory: " + Words(error));
    }
    if (const int error = cudaMalloc(reinterpret_cast<void**>(&there_), bytes); error != cudaSuccess) {
      return Fail(ErrorCode::kNoSpace, "no " + std::to_string(bytes) + " bytes of device memory: " + Words(error));
    }
    return Check(cudaEventCreateWithFlags(&ended_, cudaEventDisableTiming), "event");
  }

  std::span<uint8_t> buffer() override { return {here_, bytes_}; }

  Status Launch(const kernels::KvPlan& plan, KvDirection direction, void* given_stream) override {
    auto* stream = static_cast<cudaStream_t>(given_stream);
    cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
    TRY(Check(cudaStreamIsCapturing(stream, &capturing), "stream"));
    if (capturing != cudaStreamCaptureStatusNone) {
      return Fail(ErrorCode::kInvalidArgument, "the stream is being captured: a plan is for one launch");
    }
    Status status = Enqueue(plan, direction, stream);
    // What was given to the stream before the failure still uses the buffers.
    if (!status) (void)cudaStreamSynchronize(stream);
    return status;
  }

  Result<bool> Ended() override {
    const cudaError_t error = cudaEventQuery(ended_);
    if (error == cudaErrorNotReady) {
      (void)cudaGetLastError();
      return false;
    }
    TRY(Check(error, "launch"));
    return true;
  }
  Status Wait() override { return Check(cudaEventSynchronize(ended_), "launch"); }
  const uint32_t* words() const override { return words_; }

 private:
  Status Enqueue(const kernels::KvPlan& plan, KvDirection direction, cudaStream_t stream) {
    TRY(Check(cudaMemcpyAsync(there_, here_, plan.bytes(), cudaMemcpyHostToDevice, stream), "copy of the plan"));
    const kernels::KvPlanView view = plan.View(there_);
    TRY(Check(
        direction == KvDirection::kInject ? kernels::InjectCuda(view, stream) : kernels::ExtractCuda(view, stream),
        "launch"));
    words_ = reinterpret_cast<const uint32_t*>(here_ + plan.status_offset());
    if (plan.source_count() > 0) {
      TRY(Check(cudaMemcpyAsync(here_ + plan.status_offset(), view.status, plan.source_count() * sizeof(uint32_t),
                                cudaMemcpyDeviceToHost, stream),
                "copy of the status words"));
    }
    return Check(cudaEventRecord(ended_, stream), "event");
  }

  uint8_t* here_ = nullptr;
  uint8_t* there_ = nullptr;
  size_t bytes_ = 0;
  cudaEvent_t ended_ = nullptr;
  const uint32_t* words_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int ordinal) : ordinal_(ordinal) {}

  // An error here shows in the next call.
  int Enter() override {
    int previous = ordinal_;
    (void)cudaGetDevice(&previous);
    if (previous != ordinal_) (void)cudaSetDevice(ordinal_);
    return previous;
  }
  void Leave(int previous) override {
    if (previous != ordinal_) (void)cudaSetDevice(previous);
  }

  // A kernel with nothing to do: whether the library has code for this device.
  Status Try() { return Check(OpenStamps(SlotStamps{}, nullptr), "first launch"); }

  Status CheckStream(void*) const override { return {}; }

  Status RegisterHost(void* memory, uint64_t bytes, bool read_only) override {
    const unsigned flags =
        cudaHostRegisterPortable | cudaHostRegisterMapped | (read_only ? unsigned{cudaHostRegisterReadOnly} : 0u);
    TRY(Check(cudaHostRegister(memory, bytes, flags), "registering host memory"));
    void* there = nullptr;
    const int error = cudaHostGetDevicePointer(&there, memory, 0);
    if (error == cudaSuccess && there == memory) return {};
    const std::string why = error == cudaSuccess ? "the device has it at another address" : Words(error);
    (void)cudaHostUnregister(memory);
    return Fail(ErrorCode::kEngine, "registering host memory: " + why);
  }
  Status UnregisterHost(void* memory) override {
    return Check(cudaHostUnregister(memory), "unregistering host memory");
  }

  Result<std::unique_ptr<ArenaMemory>> MakeArenaMemory(uint64_t bytes, void* stream) override {
    return MakeDeviceArenaMemory(bytes, static_cast<cudaStream_t>(stream));
  }
  Result<std::unique_ptr<PlanSlot>> MakePlanSlot(size_t plan_bytes) override {
    auto slot = std::make_unique<CudaPlanSlot>();
    TRY(slot->Open(plan_bytes));
    return slot;
  }

  uint64_t TopkWorkspaceBytes(const kernels::TopkArgs& args) const override {
    return kernels::TopkWorkspaceBytes(args);
  }
  Status Topk(const kernels::TopkArgs& args, void* workspace, void* stream) override {
    return Check(kernels::TopkCuda(args, workspace, static_cast<cudaStream_t>(stream)), "top-k");
  }

 private:
  const int ordinal_;
};

}  // namespace

Result<std::unique_ptr<Backend>> OpenCudaBackend(int ordinal) {
  int count = 0;
  if (const int error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    return Fail(ErrorCode::kVersionUnsupported, "no CUDA device: " + Words(error));
  }
  if (ordinal < 0 || ordinal >= count) {
    return Fail(ErrorCode::kVersionUnsupported,
                "no CUDA device " + std::to_string(ordinal) + ": there are " + std::to_string(count));
  }
  auto backend = std::make_unique<CudaBackend>(ordinal);
  const OnDevice on(*backend);
  if (const Status tried = backend->Try(); !tried) {
    return Fail(ErrorCode::kVersionUnsupported, "CUDA device " + std::to_string(ordinal) + ": " +
                                                    tried.error().message +
                                                    " (INFERSCALE_CUDA_ARCHITECTURES names what a build is for)");
  }
  return backend;
}

}  // namespace inferscale::capi
