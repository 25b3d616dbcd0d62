// Exact top-k through the C interface, on the CPU: the cases of topk_test.
#include <gtest/gtest.h>

#include <string>

#include "capi/abi_topk_test_util.h"

namespace inferscale::capi {
namespace {

using kernels::TopkCase;
using kernels::TopkCaseSpec;

TEST(TopkApi, FindsWhatTheOracleSays) {
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CPU);
  size_t count = 0;
  for (const TopkCaseSpec& spec : kernels::TopkCases()) {
    if (++count % 10 != 0) continue;  // topk_test has all
    TopkCase test(spec);
    std::vector<uint8_t> memory = test.memory();
    const inferscale_topk_args args = ToAbi(test.Args(memory.data()));
    uint64_t bytes = 9;
    ASSERT_EQ(inferscale_topk_workspace_bytes(device.get(), &args, &bytes), INFERSCALE_OK);
    EXPECT_EQ(bytes, 0u);
    ASSERT_EQ(inferscale_topk(device.get(), &args, nullptr, 0, nullptr), INFERSCALE_OK) << inferscale_last_error();
    ASSERT_EQ(test.Check(memory), "") << spec.Name();
  }
  EXPECT_GT(count, 40u);
}

TEST(TopkApi, RefusesWhatIsWrong) {
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CPU);
  TopkCase test({.rows = 100, .dim = 32, .k = 5});
  std::vector<uint8_t> memory = test.memory();
  const inferscale_topk_args good = ToAbi(test.Args(memory.data()));
  const auto refused = [&](inferscale_status status, const char* words, inferscale_topk_args args, void* stream) {
    EXPECT_EQ(inferscale_topk(device.get(), &args, nullptr, 0, stream), status) << words;
    EXPECT_NE(std::string(inferscale_last_error()).find(words), std::string::npos) << inferscale_last_error();
    EXPECT_EQ(memory, test.memory());
  };
  inferscale_topk_args args = good;
  refused(INFERSCALE_INVALID_ARGUMENT, "no streams", args, &args);
  args = good, args.struct_bytes = 4;
  refused(INFERSCALE_INVALID_ARGUMENT, "struct_bytes", args, nullptr);
  args = good, args.type = 256;  // f16 if it were cut to a byte
  refused(INFERSCALE_INVALID_ARGUMENT, "element type", args, nullptr);
  args = good, args.vectors = nullptr;
  refused(INFERSCALE_INVALID_ARGUMENT, "vectors", args, nullptr);
  args = good, args.out_rows = nullptr;
  refused(INFERSCALE_INVALID_ARGUMENT, "results", args, nullptr);
  args = good, args.k = 5000;
  refused(INFERSCALE_TOO_LARGE, "one search", args, nullptr);
  uint64_t bytes = 9;
  EXPECT_EQ(inferscale_topk_workspace_bytes(device.get(), &args, &bytes), INFERSCALE_TOO_LARGE);
  EXPECT_EQ(inferscale_topk_workspace_bytes(device.get(), nullptr, &bytes), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_topk_workspace_bytes(device.get(), &good, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_topk(device.get(), nullptr, nullptr, 0, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_topk(device.get(), &good, memory.data() + 1, 0, nullptr), INFERSCALE_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace inferscale::capi
