#include "kernels/cpu/transpose.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/cpu/cpu_targets_test_util.h"

namespace inferscale::kernels {
namespace {

constexpr uint16_t kGuard = 0xABCD;

using Kernel = decltype(&TransposeU16);

// Runs the kernel into the middle of a guarded target and looks at every element of it.
void Check(Kernel kernel, size_t tokens, size_t dims, size_t src_gap, size_t dst_gap, size_t shift) {
  const size_t src_stride = dims + src_gap, dst_stride = tokens + dst_gap;
  std::vector<uint16_t> src(shift + tokens * src_stride);  // exactly as long: a read behind it is the sanitizer's
  for (size_t i = 0; i < src.size(); ++i) src[i] = static_cast<uint16_t>(i % 40'000);  // never the guard
  std::vector<uint16_t> dst(shift + dims * dst_stride + 32, kGuard);
  std::vector<uint16_t> want = dst;
  for (size_t d = 0; d < dims; ++d) {
    for (size_t t = 0; t < tokens; ++t) want[shift + d * dst_stride + t] = src[shift + t * src_stride + d];
  }
  kernel(src.data() + shift, src_stride, dst.data() + shift, dst_stride, tokens, dims);
  ASSERT_EQ(dst, want) << tokens << " tokens, " << dims << " dims, gaps " << src_gap << " " << dst_gap << ", shift "
                       << shift;
}

TEST(TransposeTest, EveryTailSize) {
  ForEachCpuTarget([] {
    for (size_t tokens = 0; tokens <= 40; ++tokens) {
      for (size_t dims = 0; dims <= 40; ++dims) Check(TransposeU16, tokens, dims, 3, 5, 1);
    }
  });
}

TEST(TransposeTest, TheEnginesShapes) {
  ForEachCpuTarget([] {
    for (const size_t dims : {64u, 128u, 256u}) {
      for (const size_t tokens : {1u, 7u, 27u, 200u, 513u}) {
        Check(TransposeU16, tokens, dims, 0, 1500, 0);
        Check(TransposeU16, tokens, dims, 0, 2048 - tokens, 3);
      }
    }
  });
}

TEST(TransposeTest, RandomShapes) {
  std::mt19937 random(5);
  const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    const size_t tokens = below(100), dims = below(140), src_gap = below(70), dst_gap = below(70), shift = below(17);
    ForEachCpuTarget([&] { Check(TransposeU16, tokens, dims, src_gap, dst_gap, shift); });
    Check(TransposeU16Scalar, tokens, dims, src_gap, dst_gap, shift);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace inferscale::kernels
