// Device memory for tests. Every test that needs a device begins with INFERSCALE_NEEDS_DEVICE().
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

namespace inferscale {

bool HasCudaDevice();

#define INFERSCALE_NEEDS_DEVICE() \
  if (!HasCudaDevice()) GTEST_SKIP() << "no CUDA device"

// Device memory with a copy of `bytes` in it.
class DeviceBytes {
 public:
  explicit DeviceBytes(const std::vector<uint8_t>& bytes);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  uint8_t* data() const { return data_; }
  std::vector<uint8_t> Read() const;  // waits for the device

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace inferscale
