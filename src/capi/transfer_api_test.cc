// Inject and extract through the C interface, on the CPU. On a GPU: cuda/capi_cuda_test.cc.
#include <gtest/gtest.h>

#include <thread>

#include "capi/abi_case_test_util.h"

namespace inferscale::capi {
namespace {

using kernels::KvCase;
using kernels::KvCaseGrid;
using kernels::KvCaseSpec;
using kernels::KvDirection;

// Beside what kv_transfer_test runs without the interface.
constexpr size_t kGridCases = 40, kFuzzedCases = 30;

TEST(TransferApi, InjectsWhatTheOracleSays) {
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CPU);
  for (const KvCaseSpec& spec : KvCaseGrid(kGridCases, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kInject);
    std::vector<uint8_t> memory = test.memory();
    const auto words = RunThroughAbi(device, test.Batch(memory.data()), KvDirection::kInject, nullptr);
    ASSERT_EQ(test.CheckInjected(memory), "") << spec.Name();
    for (const uint32_t word : words) ASSERT_EQ(word, 0u) << spec.Name();
  }
}

TEST(TransferApi, ExtractsWhatTheOracleSays) {
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CPU);
  for (const KvCaseSpec& spec : KvCaseGrid(kGridCases, kFuzzedCases)) {
    KvCase test(spec, KvDirection::kExtract);
    std::vector<uint8_t> memory = test.memory();
    const auto words = RunThroughAbi(device, test.Batch(memory.data()), KvDirection::kExtract, nullptr);
    ASSERT_EQ(test.CheckExtracted(memory, words), "") << spec.Name();
  }
}

TEST(TransferApi, ReportsAChangedStamp) {
  const api::Device device = OpenDevice(INFERSCALE_DEVICE_CPU);
  KvCase test(KvCaseSpec{}, KvDirection::kInject);
  test.BreakStamp(3);
  std::vector<uint8_t> memory = test.memory();
  const auto words = RunThroughAbi(device, test.Batch(memory.data()), KvDirection::kInject, nullptr);
  for (size_t i = 0; i < words.size(); ++i) {
    EXPECT_EQ(words[i], i == 3 ? INFERSCALE_STAMP_CHANGED_BEFORE | INFERSCALE_STAMP_CHANGED_AFTER : 0u) << i;
  }
}

// One case, its transfer, and what the tests below change in it.
class OneCase : public testing::Test {
 protected:
  OneCase() : test_(KvCaseSpec{}, KvDirection::kInject), memory_(test_.memory()) {
    given_ = std::make_unique<AbiBatch>(test_.Batch(memory_.data()));
  }
  inferscale_status Inject(const api::Transfer& transfer, uint64_t* ticket) const {
    return inferscale_inject(transfer.get(), &given_->batch(), nullptr, ticket);
  }

  KvCase test_;
  std::vector<uint8_t> memory_;
  std::unique_ptr<AbiBatch> given_;
  api::Device device_ = OpenDevice(INFERSCALE_DEVICE_CPU);
};

TEST_F(OneCase, AFullRingSaysSoAndLosesNothing) {
  given_->options().ring = 2;
  const api::Transfer transfer = OpenTransfer(device_, given_->options());
  uint64_t first = 0, second = 0, third = 77;
  ASSERT_EQ(Inject(transfer, &first), INFERSCALE_OK);
  ASSERT_EQ(Inject(transfer, &second), INFERSCALE_OK);
  EXPECT_NE(first, second);
  EXPECT_EQ(Inject(transfer, &third), INFERSCALE_BUSY);
  EXPECT_EQ(third, 77u);
  EXPECT_NE(std::string(inferscale_last_error()).find("ring is full"), std::string::npos);

  const uint32_t count = given_->batch().record_count;
  std::vector<uint32_t> words(count, 9);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), second, words.data(), count), INFERSCALE_OK);
  EXPECT_EQ(words, std::vector<uint32_t>(count));
  // Out of order: the slot of the second is free, the first one's ticket is still good.
  EXPECT_EQ(Inject(transfer, &third), INFERSCALE_OK);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), second, words.data(), count), INFERSCALE_NOT_FOUND);
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), first, words.data(), count), INFERSCALE_OK);
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), third, nullptr, 0), INFERSCALE_OK);
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), third, nullptr, 0), INFERSCALE_NOT_FOUND);
}

TEST_F(OneCase, WordsMustFitAndTheTicketStays) {
  const api::Transfer transfer = OpenTransfer(device_, given_->options());
  uint64_t ticket = 0;
  ASSERT_EQ(Inject(transfer, &ticket), INFERSCALE_OK);
  std::vector<uint32_t> words(given_->batch().record_count + 1);
  const auto count = static_cast<uint32_t>(words.size());
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), ticket, words.data(), count), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), ticket, words.data(), 1), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), ticket, nullptr, count - 1), INFERSCALE_INVALID_ARGUMENT);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), ticket + 1, words.data(), count - 1), INFERSCALE_NOT_FOUND);
  EXPECT_EQ(inferscale_transfer_poll(transfer.get(), ticket, words.data(), count - 1), INFERSCALE_OK);
}

TEST_F(OneCase, ABatchThatIsLargerThanTheTransferIsRefused) {
  const struct {
    uint32_t inferscale_transfer_options::*limit;
    const char* words;
  } limits[] = {{&inferscale_transfer_options::max_records, "records"},
                {&inferscale_transfer_options::max_spans, "spans"},
                {&inferscale_transfer_options::max_requests, "requests"},
                {&inferscale_transfer_options::max_tokens, "tokens"},
                {&inferscale_transfer_options::max_blocks, "blocks"}};
  for (const auto& [limit, words] : limits) {
    inferscale_transfer_options options = given_->options();
    --(options.*limit);
    const api::Transfer transfer = OpenTransfer(device_, options);
    uint64_t ticket = 0;
    EXPECT_EQ(Inject(transfer, &ticket), INFERSCALE_TOO_LARGE) << words;
    EXPECT_NE(std::string(inferscale_last_error()).find(words), std::string::npos) << inferscale_last_error();
  }
  EXPECT_EQ(test_.memory(), memory_);
}

// Two threads share a transfer, a request each.
TEST_F(OneCase, TwoThreads) {
  given_->options().ring = 3;
  const api::Transfer transfer = OpenTransfer(device_, given_->options());
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < 2; ++r) {
    threads.emplace_back([&, r] {
      inferscale_batch mine = given_->batch();
      mine.requests += r, mine.tables += r, mine.request_count = 1;
      std::vector<uint32_t> words(mine.record_count);
      for (int i = 0; i < 20; ++i) {
        uint64_t ticket = 0;
        ASSERT_EQ(inferscale_inject(transfer.get(), &mine, nullptr, &ticket), INFERSCALE_OK);
        ASSERT_EQ(inferscale_transfer_wait(transfer.get(), ticket, words.data(), mine.record_count), INFERSCALE_OK);
        ASSERT_EQ(words, std::vector<uint32_t>(words.size()));
      }
      // Of this thread.
      EXPECT_EQ(inferscale_transfer_poll(transfer.get(), 0, nullptr, 0), INFERSCALE_NOT_FOUND);
      EXPECT_NE(std::string(inferscale_last_error()), "");
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(test_.CheckInjected(memory_), "");
}

TEST_F(OneCase, AnEmptyBatchIsALaunch) {
  const api::Transfer transfer = OpenTransfer(device_, given_->options());
  const inferscale_batch empty{.struct_bytes = sizeof empty};
  uint64_t ticket = 0;
  ASSERT_EQ(inferscale_inject(transfer.get(), &empty, nullptr, &ticket), INFERSCALE_OK) << inferscale_last_error();
  EXPECT_EQ(inferscale_transfer_wait(transfer.get(), ticket, nullptr, 0), INFERSCALE_OK);
  EXPECT_EQ(test_.memory(), memory_);
}

TEST_F(OneCase, LivesAsLongAsItsTransfer) {
  const api::Transfer transfer = OpenTransfer(device_, given_->options());
  device_.reset();
  uint64_t ticket = 0;
  EXPECT_EQ(Inject(transfer, &ticket), INFERSCALE_OK);
}

}  // namespace
}  // namespace inferscale::capi
