// The C interface on a device: the CPU's test vectors, the arena in front of the inject kernel, and what only a stream
// can do.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "capi/abi_case_test_util.h"
#include "capi/abi_topk_test_util.h"
#include "kernels/cuda/device_test_util.h"

namespace inferscale::capi {
namespace {

using kernels::KvCase;
using kernels::KvCaseGrid;
using kernels::KvCaseSpec;
using kernels::KvDirection;

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { cudaStreamDestroy(stream_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

TEST(CapiCuda, InjectsAndExtractsWhatTheOracleSays) {
  INFERSCALE_NEEDS_DEVICE();
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CUDA);
  const Stream stream;
  for (const KvCaseSpec& spec : KvCaseGrid(100, 60)) {
    KvCase in(spec, KvDirection::kInject);
    const DeviceBytes there(in.memory());
    const auto words = RunThroughAbi(device, in.Batch(there.data()), KvDirection::kInject, stream.get());
    ASSERT_EQ(in.CheckInjected(there.Read()), "") << spec.Name();
    ASSERT_EQ(words, std::vector<uint32_t>(words.size())) << spec.Name();
    KvCase out(spec, KvDirection::kExtract);
    const DeviceBytes back(out.memory());
    const auto clipped = RunThroughAbi(device, out.Batch(back.data()), KvDirection::kExtract, stream.get());
    ASSERT_EQ(out.CheckExtracted(back.Read(), clipped), "") << spec.Name();
  }
}

// Records in registered host memory, through the arena, into the cache.
TEST(CapiCuda, AStepOfAnEngine) {
  INFERSCALE_NEEDS_DEVICE();
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CUDA);
  const Stream stream;
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  const DeviceBytes there(test.memory());
  constexpr size_t kPage = 4096;
  const size_t bytes = (test.memory().size() + kPage - 1) / kPage * kPage;
  const std::unique_ptr<uint8_t, void (*)(void*)> here(static_cast<uint8_t*>(std::aligned_alloc(kPage, bytes)),
                                                       std::free);
  std::memcpy(here.get(), test.memory().data(), test.memory().size());
  ASSERT_EQ(inferscale_host_register(device.get(), here.get(), bytes, 0), INFERSCALE_OK) << inferscale_last_error();
  EXPECT_EQ(inferscale_host_register(device.get(), here.get(), bytes, 0), INFERSCALE_DEVICE_FAILED);
  {
    api::Arena arena;
    ASSERT_EQ(inferscale_arena_open(device.get(), 4 << 20, stream.get(), api::Into(arena)), INFERSCALE_OK);
    // What the host has of the records; the cache, tables and calibration are the device's.
    AbiBatch host(test.Batch(here.get()));
    std::vector<inferscale_arena_record> wanted;
    for (const inferscale_record& r : host.records()) {
      wanted.push_back({r.expected, r.payload, (r.payload_bytes + 15) / 16 * 16, r.stamp});
    }
    const auto count = static_cast<uint32_t>(wanted.size());
    std::vector<inferscale_slot> slots(count);
    api::Lease lease;
    ASSERT_EQ(inferscale_arena_acquire(arena.get(), wanted.data(), count, slots.data(), api::Into(lease)),
              INFERSCALE_OK)
        << inferscale_last_error();
    AbiBatch given(test.Batch(there.data()));
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_NE(slots[i].payload, nullptr);
      given.records()[i].payload = slots[i].payload;
      given.records()[i].stamp = slots[i].stamp;
    }
    given.options().ring = 1;
    const api::Transfer transfer = OpenTransfer(device, given.options());
    uint64_t ticket = 0, none = 0;
    ASSERT_EQ(inferscale_inject(transfer.get(), &given.batch(), stream.get(), &ticket), INFERSCALE_OK);
    lease.reset();
    EXPECT_EQ(inferscale_inject(transfer.get(), &given.batch(), stream.get(), &none), INFERSCALE_BUSY);
    std::vector<uint32_t> words(count, 7);
    ASSERT_EQ(inferscale_transfer_wait(transfer.get(), ticket, words.data(), count), INFERSCALE_OK);
    EXPECT_EQ(words, std::vector<uint32_t>(count));
    EXPECT_EQ(test.CheckInjected(there.Read()), "");
  }
  EXPECT_EQ(inferscale_host_unregister(device.get(), here.get()), INFERSCALE_OK);
}

void CUDART_CB Hold(void* gate) { static_cast<std::promise<void>*>(gate)->get_future().wait(); }

TEST(CapiCuda, AStreamThatHasNotEndedIsPending) {
  INFERSCALE_NEEDS_DEVICE();
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CUDA);
  const Stream stream;
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  const DeviceBytes there(test.memory());
  const AbiBatch given(test.Batch(there.data()));
  const api::Transfer transfer = OpenTransfer(device, given.options());
  uint64_t ticket = 0;
  // The driver loads a kernel at its first launch, and may wait for the device then.
  ASSERT_EQ(inferscale_inject(transfer.get(), &given.batch(), stream.get(), &ticket), INFERSCALE_OK);
  ASSERT_EQ(inferscale_transfer_wait(transfer.get(), ticket, nullptr, 0), INFERSCALE_OK);
  std::promise<void> gate;
  ASSERT_EQ(cudaLaunchHostFunc(stream.get(), Hold, &gate), cudaSuccess);
  ASSERT_EQ(inferscale_inject(transfer.get(), &given.batch(), stream.get(), &ticket), INFERSCALE_OK);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), ticket, nullptr, 0), INFERSCALE_PENDING);
  gate.set_value();
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), ticket, nullptr, 0), INFERSCALE_OK);
  EXPECT_EQ(test.CheckInjected(there.Read()), "");
}

TEST(CapiCuda, ACapturedStreamIsRefused) {
  INFERSCALE_NEEDS_DEVICE();
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CUDA);
  const Stream stream;
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  const DeviceBytes there(test.memory());
  const AbiBatch given(test.Batch(there.data()));
  const api::Transfer transfer = OpenTransfer(device, given.options());
  ASSERT_EQ(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeRelaxed), cudaSuccess);
  uint64_t ticket = 0;
  EXPECT_EQ(inferscale_inject(transfer.get(), &given.batch(), stream.get(), &ticket), INFERSCALE_INVALID_ARGUMENT);
  cudaGraph_t graph = nullptr;
  ASSERT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST(CapiCuda, FindsTheBestRows) {
  INFERSCALE_NEEDS_DEVICE();
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CUDA);
  const Stream stream;
  size_t count = 0;
  for (const kernels::TopkCaseSpec& spec : kernels::TopkCases()) {
    if (++count % 4 != 0) continue;
    kernels::TopkCase test(spec);
    const DeviceBytes there(test.memory());
    const inferscale_topk_args args = ToAbi(test.Args(there.data()));
    uint64_t bytes = 0;
    ASSERT_EQ(inferscale_topk_workspace_bytes(device.get(), &args, &bytes), INFERSCALE_OK);
    const DeviceBytes workspace{std::vector<uint8_t>(bytes)};
    if (bytes > 0) {
      EXPECT_EQ(inferscale_topk(device.get(), &args, workspace.data(), bytes - 1, stream.get()),
                INFERSCALE_INVALID_ARGUMENT);
    }
    ASSERT_EQ(inferscale_topk(device.get(), &args, workspace.data(), bytes, stream.get()), INFERSCALE_OK)
        << inferscale_last_error();
    ASSERT_EQ(test.Check(there.Read()), "") << spec.Name();
  }
}

TEST(CapiCuda, WithoutADeviceItSaysSo) {
  if (HasCudaDevice()) GTEST_SKIP() << "there is a CUDA device";
  inferscale_device* device = nullptr;
  EXPECT_EQ(inferscale_device_open(INFERSCALE_DEVICE_CUDA, 0, &device), INFERSCALE_UNSUPPORTED);
  EXPECT_NE(std::string(inferscale_last_error()).find("no CUDA device"), std::string::npos) << inferscale_last_error();
  EXPECT_EQ(device, nullptr);
}

}  // namespace
}  // namespace inferscale::capi
