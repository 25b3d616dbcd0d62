#include "kernels/topk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/limits.h"
#include "kernels/cpu/topk.h"
#include "kernels/topk_case_test_util.h"

namespace inferscale::kernels {
namespace {

TEST(TopkTest, FindsWhatTheOracleFinds) {
  for (const TopkCaseSpec& spec : TopkCases()) {
    const TopkCase test(spec);
    std::vector<uint8_t> memory = test.memory();
    const TopkArgs args = test.Args(memory.data());
    ASSERT_TRUE(CheckTopk(args)) << spec.Name();
    TopkCpu(args);
    ASSERT_EQ(test.Check(memory), "") << spec.Name();
  }
}

// The oracle sees what is wrong.
TEST(TopkTest, OracleRefuses) {
  const TopkCase test({.rows = 500, .dim = 32, .queries = 2, .k = 10, .mask = TopkMask::kHalf, .slots = true});
  std::vector<uint8_t> good = test.memory();
  TopkCpu(test.Args(good.data()));
  ASSERT_EQ(test.Check(good), "");
  const auto refuses = [&](auto change) {
    std::vector<uint8_t> bad = good;
    change(test.Args(bad.data()));
    return test.Check(bad) != "";
  };
  EXPECT_TRUE(refuses([](const TopkArgs& a) { std::swap(a.out_rows[3], a.out_rows[4]); }));
  EXPECT_TRUE(refuses([](const TopkArgs& a) {
    std::swap(a.out_rows[3], a.out_rows[4]), std::swap(a.out_scores[3], a.out_scores[4]);
    std::swap(a.out_slots[3], a.out_slots[4]);
  }));
  EXPECT_TRUE(refuses([](const TopkArgs& a) { a.out_scores[12] *= 1.001f; }));
  EXPECT_TRUE(refuses([](const TopkArgs& a) { a.out_slots[0] ^= 1; }));
  EXPECT_TRUE(refuses([](const TopkArgs& a) { a.out_rows[19] = kNoTopkRow; }));
  EXPECT_TRUE(refuses([](const TopkArgs& a) { a.out_rows[20] = 0; }));  // a guard
  EXPECT_TRUE(refuses([](const TopkArgs& a) {                           // the best is missing
    for (int i = 0; i < 9; ++i) {
      a.out_rows[i] = a.out_rows[i + 1], a.out_scores[i] = a.out_scores[i + 1], a.out_slots[i] = a.out_slots[i + 1];
    }
    a.out_rows[9] = kNoTopkRow;
  }));
}

TEST(TopkTest, KeysOrderScoresAndRows) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float ascending[] = {-infinity, -2.0f, -1e-40f, 0.0f, 1e-40f, 1.0f, 3e38f, infinity};
  for (size_t i = 0; i + 1 < std::size(ascending); ++i) {
    EXPECT_LT(TopkKey(ascending[i], 0), TopkKey(ascending[i + 1], 1'000'000)) << i;
    EXPECT_EQ(TopkScore(TopkKey(ascending[i], 9)), ascending[i]);
  }
  EXPECT_GT(TopkKey(1.0f, 5), TopkKey(1.0f, 6));
  EXPECT_EQ(TopkKey(-0.0f, 5), TopkKey(0.0f, 5));
  for (const float nan : {std::nanf(""), -std::nanf("")}) {
    EXPECT_LT(TopkKey(nan, 0), TopkKey(-infinity, 7));
    EXPECT_TRUE(std::isnan(TopkScore(TopkKey(nan, 3))));
  }
  EXPECT_EQ(TopkRow(TopkKey(0.5f, 123)), 123u);
  EXPECT_GT(TopkKey(std::nanf(""), kNoTopkRow - 1), 0u);
}

TEST(TopkTest, RefusesWhatCannotBe) {
  const TopkCase test({.type = VectorType::kInt8, .rows = 10, .dim = 32, .k = 5, .slots = true, .scales = true});
  std::vector<uint8_t> memory = test.memory();
  const TopkArgs good = test.Args(memory.data());
  const auto code = [&](auto change) {
    TopkArgs args = good;
    change(args);
    const Status status = CheckTopk(args);
    return status ? ErrorCode::kInternal : status.error().code;
  };
  EXPECT_EQ(code([](TopkArgs&) {}), ErrorCode::kInternal);
  const ErrorCode invalid = ErrorCode::kInvalidArgument, large = ErrorCode::kTooLarge;
  EXPECT_EQ(code([](TopkArgs& a) { a.type = static_cast<VectorType>(9); }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.type = VectorType::kF16; }), invalid);  // rows overlap
  EXPECT_EQ(code([](TopkArgs& a) { a.type = VectorType::kF16, a.vector_stride = a.query_stride = 64; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.dim = 0; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.dim = 33; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.vectors = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.queries = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.vector_stride = 40; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.queries = static_cast<const uint8_t*>(a.queries) + 8; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.out_rows = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.out_scores = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.out_slots = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.slots = nullptr; }), invalid);
  EXPECT_EQ(code([](TopkArgs& a) { a.k = limits::kTopkOnDevice + 1; }), large);
  EXPECT_EQ(code([](TopkArgs& a) { a.rows = limits::kTopkRows + 1; }), large);
  EXPECT_EQ(code([](TopkArgs& a) { a.query_count = limits::kTopkQueries + 1; }), large);
  EXPECT_EQ(code([](TopkArgs& a) { a.dim = limits::kEmbedDimMax + 1; }), large);
}

}  // namespace
}  // namespace inferscale::kernels
