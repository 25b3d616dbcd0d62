#include "kernels/cuda/device_test_util.h"

namespace inferscale {

bool HasCudaDevice() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

DeviceBytes::DeviceBytes(const std::vector<uint8_t>& bytes) : size_(bytes.size()) {
  EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), size_ + 1), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(data_, bytes.data(), size_, cudaMemcpyHostToDevice), cudaSuccess);
}

DeviceBytes::~DeviceBytes() { cudaFree(data_); }

std::vector<uint8_t> DeviceBytes::Read() const {
  std::vector<uint8_t> bytes(size_);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(bytes.data(), data_, size_, cudaMemcpyDeviceToHost), cudaSuccess);
  return bytes;
}

}  // namespace inferscale
