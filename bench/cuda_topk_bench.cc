// Exact top-k on the GPU, k 50, 384 elements: microseconds of a search, and its results for torch_topk.py, which
// computes the same vectors, times torch's matmul and topk, and compares with double precision.
//
//   cuda_topk_bench FOLDER
#include <fstream>
#include <string>

#include "bench/cuda_bench_util.h"
#include "kernels/cpu/convert.h"
#include "kernels/cuda/topk.h"

namespace inferscale::kernels {
namespace {

constexpr uint32_t kDim = 384, kK = 50, kQueriesMax = 256;
constexpr size_t kColdBytes = size_t{1} << 30;  // L2 has 60 MB
constexpr uint64_t kQuerySeed = uint64_t{1} << 32;

// Element i of all: the sum of two uniform numbers, so that a vector's length is about 1. The same in torch_topk.py.
float ElementAt(uint64_t i) {
  uint32_t x = static_cast<uint32_t>(i) * 0x9E3779B1u + static_cast<uint32_t>(i >> 32) * 0x7FEB352Du;
  x ^= x >> 15, x *= 0x846CA68Bu, x ^= x >> 13, x *= 0x58F38DEDu, x ^= x >> 16;
  return (static_cast<float>((x & 0xFFFF) + (x >> 16)) - 65536.0f) * 0x1p-19f;
}

// int8: elements / 0.125 * 127 (the sum's largest is 0.125), toward zero.
std::vector<uint8_t> Vectors(VectorType type, uint64_t first, size_t count) {
  std::vector<uint8_t> bytes(count * BytesPerElement(type));
  for (size_t i = 0; i < count; ++i) {
    const float x = ElementAt(first + i);
    if (type == VectorType::kInt8) {
      bytes[i] = static_cast<uint8_t>(static_cast<int8_t>(x * 1016.0f));
    } else {
      reinterpret_cast<uint16_t*>(bytes.data())[i] = F32ToF16Scalar(x);
    }
  }
  return bytes;
}

struct Bench {
  std::string folder;
  VectorType type;
  DeviceBuffer queries, scores, found;

  Bench(std::string folder, VectorType type)
      : folder(std::move(folder)),
        type(type),
        queries(Vectors(type, kQuerySeed, size_t{kQueriesMax} * kDim)),
        scores(kQueriesMax * kK * 4),
        found(kQueriesMax * kK * 4) {}

  void Run(uint32_t rows, const uint8_t* vectors, size_t copies, uint32_t query_count) {
    TopkArgs args;
    args.vector_stride = args.query_stride = kDim * BytesPerElement(type);
    args.queries = queries.data();
    args.rows = rows, args.dim = kDim, args.query_count = query_count, args.k = kK, args.type = type;
    args.out_scores = reinterpret_cast<float*>(scores.data());
    args.out_rows = reinterpret_cast<uint32_t*>(found.data());
    const DeviceBuffer workspace(TopkWorkspaceBytes(args));
    const size_t bytes = size_t{rows} * args.vector_stride;
    const auto launch = [&](size_t copy) {
      args.vectors = vectors + copy * bytes;
      Cuda(static_cast<cudaError_t>(TopkCuda(args, workspace.data(), nullptr)));
    };
    const double us = TimeRounds(copies, launch);
    launch(0);
    std::vector<uint32_t> host(size_t{query_count} * kK);
    Cuda(cudaMemcpy(host.data(), found.data(), host.size() * 4, cudaMemcpyDeviceToHost));
    const char* name = type == VectorType::kF16 ? "f16" : "int8";
    std::ofstream(folder + "/" + name + "_" + std::to_string(rows) + "_" + std::to_string(query_count),
                  std::ios::binary)
        .write(reinterpret_cast<const char*>(host.data()), static_cast<std::streamsize>(host.size() * 4));
    std::printf("%-4s %9u rows %4u queries %10.1f us  %6.0f GB/s  %4.0f TFLOP/s, single %.1f us\n", name, rows,
                query_count, us, static_cast<double>(bytes) / us / 1e3, 2.0 * rows * kDim * query_count / us / 1e6,
                TimeSingles(copies, launch));
    std::fflush(stdout);
  }
};

void RunType(const std::string& folder, VectorType type) {
  Bench bench(folder, type);
  for (const uint32_t rows : {1000u, 100'000u, 8'000'000u}) {
    const size_t bytes = size_t{rows} * kDim * BytesPerElement(type);
    const size_t copies = std::max(size_t{2}, (kColdBytes + bytes - 1) / bytes);
    const DeviceBuffer vectors(copies * bytes);
    constexpr size_t kPart = size_t{kDim} * 100'000;  // elements made on the host at once
    for (size_t first = 0; first < size_t{rows} * kDim; first += kPart) {
      const auto part = Vectors(type, first, std::min(kPart, size_t{rows} * kDim - first));
      for (size_t c = 0; c < copies; ++c) {
        Cuda(cudaMemcpy(vectors.data() + c * bytes + first * BytesPerElement(type), part.data(), part.size(),
                        cudaMemcpyHostToDevice));
      }
    }
    for (const uint32_t queries : {1u, 8u, 32u, kQueriesMax}) bench.Run(rows, vectors.data(), copies, queries);
  }
}

}  // namespace
}  // namespace inferscale::kernels

int main(int argc, char** argv) {
  using namespace inferscale::kernels;
  Check(argc == 2, "usage: cuda_topk_bench FOLDER");
  PrintDevice();
  RunType(argv[1], VectorType::kF16);
  RunType(argv[1], VectorType::kInt8);
}
