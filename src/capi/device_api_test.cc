// Devices, errors, versions, and handles that are none.
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>

#include "base/error.h"
#include "capi/api_call.h"
#include "inferscale/inferscale.hpp"

namespace inferscale::capi {
namespace {

std::string LastError() { return inferscale_last_error(); }

TEST(DeviceApi, SaysWhatItIs) {
  EXPECT_EQ(inferscale_abi_version(), INFERSCALE_ABI_MAJOR * 65536u + INFERSCALE_ABI_MINOR);
  EXPECT_NE(std::string(inferscale_version()), "");
  EXPECT_EQ(std::string(inferscale_status_name(INFERSCALE_BUSY)), "busy");
  EXPECT_EQ(std::string(inferscale_status_name(4711)), "unknown");
}

TEST(DeviceApi, OpensTheCpu) {
  api::Device device;
  ASSERT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CPU, 0, api::Into(device)), INFERSCALE_OK);
  int number = 0;
  EXPECT_EQ(inferscale_host_register(device.get(), &number, sizeof number, 0), INFERSCALE_OK);
  EXPECT_EQ(inferscale_host_unregister(device.get(), &number), INFERSCALE_OK);
  EXPECT_EQ(inferscale_host_register(device.get(), nullptr, 4, 0), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_host_register(device.get(), &number, 0, 0), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_host_register(device.get(), &number, 4, 2), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_host_unregister(device.get(), nullptr), INFERSCALE_INVALID_ARGUMENT);
  inferscale_device* handle = device.release();
  EXPECT_EQ(inferscale_device_close(handle), INFERSCALE_OK);
  EXPECT_EQ(inferscale_device_close(handle), INFERSCALE_NOT_FOUND);
  EXPECT_NE(LastError().find("closed"), std::string::npos) << LastError();
}

TEST(DeviceApi, RefusesOtherDevices) {
  inferscale_device* device = nullptr;
  EXPECT_EQ(inferscale_device_open(7, 0, &device), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CPU, 1, &device), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CPU, 0, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CUDA, 100000, &device), INFERSCALE_UNSUPPORTED);
  EXPECT_NE(LastError().find(inferscale_has_cuda() ? "no CUDA device" : "built without CUDA"), std::string::npos)
      << LastError();
  EXPECT_EQ(device, nullptr);
}

// Null, what is no handle at all, and a handle of another kind, in every function that takes one.
TEST(DeviceApi, FindsOutForeignHandles) {
  api::Device open;
  ASSERT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CPU, 0, api::Into(open)), INFERSCALE_OK);
  int local = 0;
  uint64_t number = 0;
  for (void* wrong : {static_cast<void*>(nullptr), static_cast<void*>(&local), static_cast<void*>(open.get())}) {
    auto* arena = static_cast<inferscale_arena*>(wrong);
    auto* transfer = static_cast<inferscale_transfer*>(wrong);
    for (const inferscale_status status :
         {inferscale_arena_close(arena), inferscale_arena_acquire(arena, nullptr, 0, nullptr, nullptr),
          inferscale_arena_prefetch(arena, nullptr, 0), inferscale_arena_evict(arena, &number, nullptr),
          inferscale_arena_clear(arena, nullptr), inferscale_arena_finish(arena),
          inferscale_arena_stats(arena, nullptr), inferscale_lease_release(static_cast<inferscale_lease*>(wrong)),
          inferscale_transfer_close(transfer), inferscale_inject(transfer, nullptr, nullptr, &number),
          inferscale_extract(transfer, nullptr, nullptr, &number), inferscale_transfer_poll(transfer, 1, nullptr, 0),
          inferscale_transfer_wait(transfer, 1, nullptr, 0)}) {
      EXPECT_EQ(status, INFERSCALE_NOT_FOUND) << LastError();
    }
    if (wrong == open.get()) continue;
    auto* device = static_cast<inferscale_device*>(wrong);
    for (const inferscale_status status :
         {inferscale_device_close(device), inferscale_host_register(device, &local, 4, 0),
          inferscale_host_unregister(device, &local), inferscale_arena_open(device, 1 << 20, nullptr, nullptr),
          inferscale_transfer_open(device, nullptr, nullptr), inferscale_topk_workspace_bytes(device, nullptr, &number),
          inferscale_topk(device, nullptr, nullptr, 0, nullptr)}) {
      EXPECT_EQ(status, INFERSCALE_NOT_FOUND) << LastError();
    }
  }
}

TEST(DeviceApi, PayloadBytesAreTheLayouts) {
  const inferscale_shape llama{8, 32, 128, 128};
  uint64_t bytes = 0;
  ASSERT_EQ(inferscale_payload_bytes(&llama, 27, INFERSCALE_ENCODING_BF16, &bytes), INFERSCALE_OK);
  EXPECT_EQ(bytes, 3'538'944u);
  ASSERT_EQ(inferscale_payload_bytes(&llama, 27, INFERSCALE_ENCODING_INT8, &bytes), INFERSCALE_OK);
  EXPECT_EQ(bytes, 1'783'296u);
  const inferscale_shape empty{8, 0, 128, 128}, odd{1, 1, 3, 4}, large{1024, 1024, 1024, 1024};
  EXPECT_EQ(inferscale_payload_bytes(&empty, 27, INFERSCALE_ENCODING_BF16, &bytes), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_payload_bytes(&odd, 27, INFERSCALE_ENCODING_INT4, &bytes), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_payload_bytes(&large, 27, INFERSCALE_ENCODING_BF16, &bytes), INFERSCALE_TOO_LARGE);
  // 259 would be int8 if it were cut to a byte.
  for (const uint32_t encoding : {0u, 5u, 259u, 0xFFFFFFFFu}) {
    EXPECT_EQ(inferscale_payload_bytes(&llama, 27, encoding, &bytes), INFERSCALE_INVALID_ARGUMENT) << encoding;
  }
  EXPECT_EQ(inferscale_payload_bytes(&llama, 0, INFERSCALE_ENCODING_BF16, &bytes), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_payload_bytes(nullptr, 27, INFERSCALE_ENCODING_BF16, &bytes), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_payload_bytes(&llama, 27, INFERSCALE_ENCODING_BF16, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(bytes, 1'783'296u);
}

TEST(ApiCall, NothingIsThrownOut) {
  EXPECT_EQ(Call([]() -> Status { throw std::bad_alloc(); }), INFERSCALE_NO_SPACE);
  EXPECT_EQ(Call([]() -> Status { throw std::runtime_error("broken"); }), INFERSCALE_INTERNAL);
  EXPECT_EQ(LastError(), "broken");
  EXPECT_EQ(Call([]() -> Status { throw 7; }), INFERSCALE_INTERNAL);
  EXPECT_EQ(Call([]() -> Result<inferscale_status> { return INFERSCALE_PENDING; }), INFERSCALE_PENDING);
  EXPECT_EQ(LastError(), "an unknown exception");  // what succeeds leaves it
}

TEST(ApiCall, MessagesAreOfTheirThreadAndCut) {
  SetError(ErrorCode::kNotFound, "mine");
  std::thread([] {
    EXPECT_EQ(LastError(), "");
    SetError(ErrorCode::kNotFound, std::string(5000, 'x'));
    EXPECT_EQ(LastError(), std::string(1023, 'x'));
  }).join();
  EXPECT_EQ(LastError(), "mine");
}

TEST(ApiCall, EveryCodeThatWeUseHasItsNumber) {
  EXPECT_EQ(SetError(ErrorCode::kInvalidArgument, ""), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(SetError(ErrorCode::kTooLarge, ""), INFERSCALE_TOO_LARGE);
  EXPECT_EQ(SetError(ErrorCode::kNotFound, ""), INFERSCALE_NOT_FOUND);
  EXPECT_EQ(SetError(ErrorCode::kNoSpace, ""), INFERSCALE_NO_SPACE);
  EXPECT_EQ(SetError(ErrorCode::kInUse, ""), INFERSCALE_BUSY);
  EXPECT_EQ(SetError(ErrorCode::kVersionUnsupported, ""), INFERSCALE_UNSUPPORTED);
  EXPECT_EQ(SetError(ErrorCode::kEngine, ""), INFERSCALE_DEVICE_FAILED);
  EXPECT_EQ(SetError(ErrorCode::kConflict, ""), INFERSCALE_INTERNAL);
}

}  // namespace
}  // namespace inferscale::capi
