// Wrong descriptions of caches and batches: each is refused, with words that say where it is wrong, and nothing is
// written.
#include "capi/given_batch.h"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "capi/abi_case_test_util.h"
#include "capi/allocations_test_util.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::capi {
namespace {

using kernels::KvCase;
using kernels::KvCaseSpec;
using kernels::KvDirection;

class WrongInput : public testing::Test {
 protected:
  WrongInput() : test_(Spec(), KvDirection::kInject), memory_(test_.memory()) {}
  static KvCaseSpec Spec() {
    KvCaseSpec spec;
    spec.rotary_dims = 64;
    spec.encodings = {kernels::PayloadEncoding::kInt8};
    return spec;
  }

  // What is said after `change`, by the transfer's opening.
  void Open(inferscale_status status, const char* words, const std::function<void(AbiBatch&)>& change) {
    AbiBatch given(test_.Batch(memory_.data()));
    change(given);
    inferscale_transfer* transfer = nullptr;
    EXPECT_EQ(inferscale_transfer_open(device_.get(), &given.options(), &transfer), status) << words;
    EXPECT_NE(std::string(inferscale_last_error()).find(words), std::string::npos) << inferscale_last_error();
    EXPECT_EQ(transfer, nullptr);
  }
  // By the launch.
  void Launch(inferscale_status status, const char* words, const std::function<void(AbiBatch&)>& change) {
    AbiBatch given(test_.Batch(memory_.data()));
    const api::Transfer transfer = OpenTransfer(device_, given.options());
    change(given);
    uint64_t ticket = 77;
    EXPECT_EQ(inferscale_inject(transfer.get(), &given.batch(), nullptr, &ticket), status) << words;
    EXPECT_NE(std::string(inferscale_last_error()).find(words), std::string::npos) << inferscale_last_error();
    EXPECT_EQ(ticket, 77u);
    EXPECT_EQ(test_.memory(), memory_);
  }

  KvCase test_;
  std::vector<uint8_t> memory_;
  api::Device device_ = OpenDevice(INFERSCALE_DEVICE_CPU);
};

TEST_F(WrongInput, Options) {
  const auto wrong = INFERSCALE_INVALID_ARGUMENT, large = INFERSCALE_TOO_LARGE;
  Open(wrong, "struct_bytes is 0", [](AbiBatch& b) { b.options().struct_bytes = 0; });
  Open(wrong, "reserved", [](AbiBatch& b) { b.options().reserved = 1; });
  Open(wrong, "ring is 0", [](AbiBatch& b) { b.options().ring = 0; });
  Open(large, "plans in the ring", [](AbiBatch& b) { b.options().ring = 257; });
  Open(large, "records", [](AbiBatch& b) { b.options().max_records = 1u << 20; });
  Open(large, "spans", [](AbiBatch& b) { b.options().max_spans = 1u << 20; });
  Open(large, "requests", [](AbiBatch& b) { b.options().max_requests = 5000; });
  Open(large, "tokens", [](AbiBatch& b) { b.options().max_tokens = 1u << 21; });
  Open(large, "blocks", [](AbiBatch& b) { b.options().max_blocks = 1u << 23; });
  Open(large, "layers", [](AbiBatch& b) { b.options().layer_count = 5000; });
  Open(large, "rope tables", [](AbiBatch& b) { b.options().rope_count = 5000; });
  Open(wrong, "null", [](AbiBatch& b) { b.options().layers = nullptr; });
  Open(wrong, "null", [](AbiBatch& b) { b.options().ropes = nullptr; });
  Open(wrong, "group_count is 0", [](AbiBatch& b) { b.options().group_count = 0; });
  Open(wrong, "group_count is 65", [](AbiBatch& b) { b.options().group_count = 65; });
  Open(wrong, "shape", [](AbiBatch& b) { b.options().shape.heads = 0; });
  Open(wrong, "layer 1: unknown element type", [](AbiBatch& b) { b.layers()[1].type = 256; });
  Open(wrong, "layer 1: reserved", [](AbiBatch& b) { b.layers()[1].reserved = 1; });
  Open(wrong, "layer 2: no such rope table", [](AbiBatch& b) { b.layers()[2].rope = 1; });
  EXPECT_EQ(inferscale_transfer_open(device_.get(), nullptr, nullptr), INFERSCALE_INVALID_ARGUMENT);
  inferscale_transfer* transfer = nullptr;
  EXPECT_EQ(inferscale_transfer_open(device_.get(), nullptr, &transfer), INFERSCALE_INVALID_ARGUMENT);
}

TEST_F(WrongInput, Batches) {
  const auto wrong = INFERSCALE_INVALID_ARGUMENT;
  Launch(wrong, "struct_bytes is 8", [](AbiBatch& b) { b.batch().struct_bytes = 8; });
  Launch(wrong, "reserved", [](AbiBatch& b) { b.batch().reserved = 1; });
  Launch(wrong, "null", [](AbiBatch& b) { b.batch().records = nullptr; });
  Launch(wrong, "null", [](AbiBatch& b) { b.batch().spans = nullptr; });
  Launch(wrong, "null", [](AbiBatch& b) { b.batch().requests = nullptr; });
  Launch(wrong, "null", [](AbiBatch& b) { b.batch().tables = nullptr; });
  Launch(wrong, "null", [](AbiBatch& b) { b.batch().blocks = nullptr; });
  Launch(wrong, "request 1: spans beyond", [](AbiBatch& b) { --b.batch().span_count; });
  Launch(wrong, "request 1: blocks beyond", [](AbiBatch& b) { --b.batch().block_count; });
  Launch(wrong, "request 0: span 2: no such record", [](AbiBatch& b) { b.spans()[2].record = 100; });
  Launch(wrong, "record 3: unknown encoding", [](AbiBatch& b) { b.records()[3].encoding = 256 + 3; });
  Launch(wrong, "record 0: no payload", [](AbiBatch& b) { b.records()[0].payload = nullptr; });
  Launch(wrong, "record 0: quantised without", [](AbiBatch& b) { b.records()[0].calibration = nullptr; });
  Launch(wrong, "record 1: a stamp is not aligned",
         [](AbiBatch& b) { b.records()[1].origin = reinterpret_cast<const inferscale_stamp*>(uintptr_t{8}); });
}

TEST_F(WrongInput, Launches) {
  AbiBatch given(test_.Batch(memory_.data()));
  const api::Transfer transfer = OpenTransfer(device_, given.options());
  uint64_t ticket = 0;
  EXPECT_EQ(inferscale_inject(transfer.get(), nullptr, nullptr, &ticket), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_inject(transfer.get(), &given.batch(), nullptr, nullptr), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_inject(transfer.get(), &given.batch(), &ticket, &ticket), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(inferscale_last_error()).find("no streams"), std::string::npos);
  EXPECT_EQ(inferscale_extract(transfer.get(), &given.batch(), nullptr, &ticket), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_NE(std::string(inferscale_last_error()).find("stamped"), std::string::npos);
}

// A caller of a later minor version, whose struct is longer.
TEST_F(WrongInput, LongerStructs) {
  AbiBatch given(test_.Batch(memory_.data()));
  const api::Transfer transfer = OpenTransfer(device_, given.options());
  struct {
    inferscale_batch known;
    uint64_t added;
  } later{given.batch(), 0};
  later.known.struct_bytes = sizeof later;
  uint64_t ticket = 0;
  EXPECT_EQ(inferscale_inject(transfer.get(), &later.known, nullptr, &ticket), INFERSCALE_OK);
  later.added = 1;
  EXPECT_EQ(inferscale_inject(transfer.get(), &later.known, nullptr, &ticket), INFERSCALE_UNSUPPORTED);
  EXPECT_NE(std::string(inferscale_last_error()).find("newer"), std::string::npos);
}

// What is said of a launch: no memory is taken, from the first batch on.
TEST(GivenBatch, PlansWithoutAllocating) {
  const auto counted = std::make_unique<int>();
  if (AllocationsOfThisThread() == 0) GTEST_SKIP() << "nothing is counted under the sanitizers";
  KvCaseSpec spec;
  spec.requests = 40, spec.hybrid = true, spec.rotary_dims = 64;
  KvCase test(spec, KvDirection::kInject);
  std::vector<uint8_t> memory = test.memory();
  AbiBatch given(test.Batch(memory.data()));
  Result<GivenBatch> made = GivenBatch::Make(&given.options());
  ASSERT_TRUE(made.has_value()) << made.error().message;
  std::vector<uint8_t> buffer(made->PlanBytes());
  const size_t before = AllocationsOfThisThread();
  const Result<const kernels::KvBatch*> batch = made->Convert(&given.batch());
  const bool planned = batch && kernels::BuildKvPlan(**batch, KvDirection::kInject, buffer);
  EXPECT_EQ(AllocationsOfThisThread(), before);
  EXPECT_TRUE(planned);
}

// The largest batch fits the plan for which memory was taken, whatever the numbers.
TEST(GivenBatch, PlanBytesAreEnough) {
  for (const KvCaseSpec& spec : kernels::KvCaseGrid(20, 30)) {
    KvCase test(spec, KvDirection::kInject);
    std::vector<uint8_t> memory = test.memory();
    const kernels::KvBatch& batch = test.Batch(memory.data());
    AbiBatch given(batch);
    const Result<GivenBatch> made = GivenBatch::Make(&given.options());
    ASSERT_TRUE(made.has_value()) << made.error().message;
    const size_t needed = kernels::KvPlanBytes(batch);
    EXPECT_GE(made->PlanBytes(), needed);
    EXPECT_LE(made->PlanBytes(), needed + 8 * 16 + sizeof(kernels::KvPlanTile)) << "of memory, more than alignment";
  }
}

}  // namespace
}  // namespace inferscale::capi
