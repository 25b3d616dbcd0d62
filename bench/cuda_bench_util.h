// What the GPU benchmarks share: memory that is large enough to be cold, and times.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

namespace inferscale::kernels {

inline void Check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "failed: %s\n", what);
  std::exit(1);
}

inline void Cuda(cudaError_t error) { Check(error == cudaSuccess, cudaGetErrorString(error)); }

class DeviceBuffer {
 public:
  explicit DeviceBuffer(size_t bytes) { Cuda(cudaMalloc(reinterpret_cast<void**>(&data_), bytes)); }
  explicit DeviceBuffer(const std::vector<uint8_t>& bytes) : DeviceBuffer(bytes.size()) {
    Cuda(cudaMemcpy(data_, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
  }
  ~DeviceBuffer() { cudaFree(data_); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;
  uint8_t* data() const { return data_; }

 private:
  uint8_t* data_ = nullptr;
};

// Random bytes (zeros are faster than data) that are finite numbers as bf16 and f16.
inline void FillPool(uint8_t* pool, size_t bytes) {
  std::mt19937 random(1);
  std::vector<uint32_t> host(size_t{16} << 20);
  for (uint32_t& word : host) word = (random() & 0x8FFF8FFFu) | 0x30003000u;
  const size_t part = host.size() * sizeof(uint32_t);
  Cuda(cudaMemcpy(pool, host.data(), part, cudaMemcpyHostToDevice));
  for (size_t at = part; at < bytes; at += part) {
    Cuda(cudaMemcpy(pool + at, pool, std::min(part, bytes - at), cudaMemcpyDeviceToDevice));
  }
}

// rotated: bytes of sources and of targets that a round goes through.
struct Pools {
  Pools(size_t bytes, size_t rotated, uint32_t positions)
      : bytes(bytes), rotated(rotated), sources(bytes), targets(bytes), tables(positions * 256 * 4) {
    source = sources.data(), target = targets.data(), table = tables.data();
    FillPool(source, bytes);
    FillPool(target, bytes);
    std::vector<float> host(size_t{positions} * 256);
    for (size_t i = 0; i < host.size(); ++i) host[i] = static_cast<float>(std::sin(0.37 * static_cast<double>(i)));
    Cuda(cudaMemcpy(table, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
  }
  const size_t bytes, rotated;
  DeviceBuffer sources, targets, tables;
  uint8_t* source;
  uint8_t* target;
  uint8_t* table;
};

inline double Median(std::vector<float> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Microseconds between two events around `work`.
inline double TimeOnce(const std::function<void()>& work, cudaStream_t stream = nullptr) {
  cudaEvent_t start, end;
  Cuda(cudaEventCreate(&start));
  Cuda(cudaEventCreate(&end));
  Cuda(cudaEventRecord(start, stream));
  work();
  Cuda(cudaEventRecord(end, stream));
  Cuda(cudaEventSynchronize(end));
  float ms = 0;
  Cuda(cudaEventElapsedTime(&ms, start, end));
  Cuda(cudaEventDestroy(start));
  Cuda(cudaEventDestroy(end));
  return ms * 1e3;
}

// Median over rounds of a round's time / count; a round launches 0 … count - 1.
inline double TimeRounds(size_t count, const std::function<void(size_t)>& launch, int rounds = 12) {
  std::vector<float> times;
  for (int r = 0; r < rounds + 2; ++r) {
    const double us = TimeOnce([&] {
      for (size_t v = 0; v < count; ++v) launch(v);
    });
    if (r >= 2) times.push_back(static_cast<float>(us / static_cast<double>(count)));
  }
  return Median(times);
}

// Median of single launches on an idle device, events included.
inline double TimeSingles(size_t count, const std::function<void(size_t)>& launch) {
  std::vector<float> times;
  for (size_t i = 0; i < 30; ++i) {
    Cuda(cudaDeviceSynchronize());
    times.push_back(static_cast<float>(TimeOnce([&] { launch(i % count); })));
  }
  return Median(times);
}

inline void PrintDevice() {
  cudaDeviceProp device;
  Cuda(cudaGetDeviceProperties(&device, 0));
  int driver = 0, runtime = 0;
  Cuda(cudaDriverGetVersion(&driver));
  Cuda(cudaRuntimeGetVersion(&runtime));
  std::printf("%s, %d multiprocessors, L2 %d MB, driver %d, runtime %d\n", device.name, device.multiProcessorCount,
              device.l2CacheSize >> 20, driver, runtime);
}

}  // namespace inferscale::kernels
