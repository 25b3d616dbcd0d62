// Devices, host memory, and what a record's bytes are.
#include "capi/api_call.h"
#include "capi/given_batch.h"
#include "capi/handles.h"
#include "inferscale/inferscale.h"
#include "kernels/kv_plan_check.h"

#ifdef INFERSCALE_WITH_CUDA
#include "capi/cuda/cuda_backend.h"
#endif

namespace inferscale::capi {
namespace {

tl::unexpected<Error> Bad(const char* what) { return Fail(ErrorCode::kInvalidArgument, what); }

Result<std::shared_ptr<Backend>> OpenBackend(uint32_t kind, int32_t ordinal) {
  if (kind == INFERSCALE_DEVICE_CPU) {
    if (ordinal != 0) return Bad("the CPU is device 0");
    return MakeCpuBackend();
  }
  if (kind != INFERSCALE_DEVICE_CUDA) return Bad("kind is none of inferscale_device_kind");
#ifdef INFERSCALE_WITH_CUDA
  return OpenCudaBackend(ordinal);
#else
  return Fail(ErrorCode::kVersionUnsupported,
              "this libinferscale was built without CUDA: use one built where nvcc is, or the CPU device");
#endif
}

// A record of these numbers as the plan builder would meet it: it knows what is allowed.
Result<uint64_t> PayloadBytes(const inferscale_shape& given, uint32_t tokens, uint32_t encoding) {
  alignas(16) static uint8_t somewhere[16];
  const kernels::KvSource record{.payload = somewhere,
                                 .payload_bytes = UINT64_MAX,
                                 .calibration = reinterpret_cast<const kernels::KeyQuant*>(somewhere),
                                 .tokens = tokens,
                                 .encoding = Narrow<kernels::PayloadEncoding>(encoding)};
  TRY(kernels::CheckKvBatch({.shape = ToShape(given), .sources = {&record, 1}}, kernels::KvDirection::kInject));
  return kernels::PayloadLayout{ToShape(given), tokens, record.encoding}.Bytes();
}

}  // namespace
}  // namespace inferscale::capi

using namespace inferscale;
using namespace inferscale::capi;

int32_t inferscale_has_cuda() {
#ifdef INFERSCALE_WITH_CUDA
  return 1;
#else
  return 0;
#endif
}

inferscale_status inferscale_device_open(uint32_t kind, int32_t ordinal, inferscale_device** device) {
  return Call([&]() -> Status {
    if (device == nullptr) return Bad("device is null: there is no place for the handle");
    TRY_ASSIGN(std::shared_ptr<Backend> backend, OpenBackend(kind, ordinal));
    TRY_ASSIGN(*device, AllDevices().Add(std::move(backend)));
    return {};
  });
}

inferscale_status inferscale_device_close(inferscale_device* device) {
  return Call([&]() -> Status {
    TRY(AllDevices().Take(device));
    return {};
  });
}

inferscale_status inferscale_host_register(inferscale_device* device, void* memory, uint64_t bytes, uint32_t flags) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Backend> backend, AllDevices().Find(device));
    if (memory == nullptr || bytes == 0) return Bad("no memory to register");
    if ((flags & ~INFERSCALE_HOST_READ_ONLY) != 0) return Bad("flags that are not known");
    const OnDevice on(*backend);
    return backend->RegisterHost(memory, bytes, (flags & INFERSCALE_HOST_READ_ONLY) != 0);
  });
}

inferscale_status inferscale_host_unregister(inferscale_device* device, void* memory) {
  return Call([&]() -> Status {
    TRY_ASSIGN(const std::shared_ptr<Backend> backend, AllDevices().Find(device));
    if (memory == nullptr) return Bad("no memory to unregister");
    const OnDevice on(*backend);
    return backend->UnregisterHost(memory);
  });
}

inferscale_status inferscale_payload_bytes(const inferscale_shape* shape, uint32_t tokens, uint32_t encoding,
                                           uint64_t* bytes) {
  return Call([&]() -> Status {
    if (shape == nullptr || bytes == nullptr) return Bad("shape or bytes is null");
    TRY_ASSIGN(*bytes, PayloadBytes(*shape, tokens, encoding));
    return {};
  });
}
