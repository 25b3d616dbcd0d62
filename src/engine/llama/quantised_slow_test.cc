// What int8 and int4 records cost an answer: the continuations behind facts that were injected from them, beside those
// behind the same facts as f16. The calibration is made from other texts (the demo's facts). The figures are in
// docs/performance.md.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "engine/llama/continuation.h"
#include "engine/llama/llama_model_file.h"
#include "engine/llama/llama_session.h"
#include "engine/llama/llama_tokenizer.h"
#include "engine/llama/model_test_util.h"
#include "kernels/cpu/kv_quant.h"
#include "store/calibrator.h"
#include "store/record_codec.h"

namespace inferscale {
namespace {

constexpr uint32_t kContext = 2048;
constexpr uint32_t kPassTokens = 1024;
constexpr uint32_t kGreedySteps = 16;
constexpr uint32_t kShift = 61;
constexpr ModelKey kModel = {1, 2};

using Continuations = std::vector<Continuation>;  // one per question

class QuantisedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto path = testing::ModelForTest(testing::kSmolLm2, false);
    if (path.empty()) GTEST_SKIP() << "INFERSCALE_MODEL_DIR is not set";
    auto file = LoadModelFile(path);
    ASSERT_TRUE(file.has_value()) << file.error().message;
    file_ = std::move(*file);
    auto session = LlamaSession::Make(
        file_.model.get(),
        {.context_tokens = kContext, .threads = 2, .flash_attention = false, .prefix_cells_bytes = 0});
    ASSERT_TRUE(session.has_value()) << session.error().message;
    session_ = std::move(*session);
    ASSERT_TRUE(session_->Probe());
    auto tokenizer = LlamaTokenizer::Make(file_.model.get());
    ASSERT_TRUE(tokenizer.has_value());
    tokenizer_ = std::move(*tokenizer);
    for (const char* question : {"Question: What did Emil buy, and where did he put it?\nAnswer:",
                                 "\nThe most interesting thing about these purchases is that", "\nIn summary, Emil",
                                 "\nQuestion: Who paid the most?\nAnswer:"})
      questions_.push_back(tokenizer_->Text(question));
  }

  std::vector<KvPayload> Capture(const std::vector<Tokens>& facts) {
    Tokens text;
    std::vector<uint32_t> pieces;
    for (const Tokens& fact : facts) {
      text.insert(text.end(), fact.begin(), fact.end());
      pieces.push_back(static_cast<uint32_t>(fact.size()));
    }
    session_->Clear();
    auto payloads = session_->DecodeAndCapture(text, 0, 0, pieces);
    EXPECT_TRUE(payloads.has_value()) << payloads.error().message;
    return std::move(*payloads);
  }

  std::vector<KvRecord> Records(const std::vector<Tokens>& facts) {
    std::vector<KvPayload> payloads = Capture(facts);
    std::vector<KvRecord> records;
    for (size_t i = 0; i < facts.size(); ++i) {
      RecordKey key{.name_space = "",
                    .fact_id = std::to_string(i),
                    .content_version = 1,
                    .token_ids = facts[i],
                    .model_key = kModel,
                    .encoding = KvEncoding::kF16,
                    .calibration_id = {},
                    .window_digest = {}};
      records.push_back({std::move(key), std::move(payloads[i])});
    }
    return records;
  }

  // The demo's facts, in passes.
  Calibrator Calibrated(const KvShape& shape) {
    Calibrator calibrator(kModel, shape);
    std::ifstream lines(std::string(INFERSCALE_SOURCE_DIR) + "/examples/demo/facts.jsonl");
    std::vector<Tokens> pass;
    size_t tokens = 0;
    const auto add = [&] {
      for (const KvPayload& payload : Capture(pass)) EXPECT_TRUE(calibrator.Add(payload));
      pass.clear();
      tokens = 0;
    };
    for (std::string line; std::getline(lines, line);) {
      pass.push_back(tokenizer_->Text(nlohmann::json::parse(line)["text"].get<std::string>() + "\n"));
      tokens += pass.back().size();
      if (tokens > kPassTokens - 100) add();
    }
    if (!pass.empty()) add();
    return calibrator;
  }

  std::vector<Tokens> Purchases() {
    static constexpr const char* kNames[] = {"Anna", "Boris", "Chen", "Dora", "Emil", "Farah", "Goran"};
    static constexpr const char* kThings[] = {"a red bicycle", "two tickets to Lisbon", "an old piano",
                                              "a box of seeds"};
    static constexpr const char* kPlaces[] = {"behind the house", "on the top shelf", "in the cellar",
                                              "under the stairs", "at a friend's"};
    std::vector<Tokens> facts;
    for (int i = 0; i < 32; ++i)
      facts.push_back(tokenizer_->Text(fmt::format("({} May 2023) {} bought {} for {} crowns and put it {}.\n", i + 1,
                                                   kNames[i % 7], kThings[i % 4], 11 + i * 17 % 90, kPlaces[i % 5])));
    return facts;
  }

  // Along `along`'s choices, or each along its own.
  Continuations Ask(const std::vector<KvRecord>& records, const Continuations& along) {
    std::vector<PlacedRecord> placed;
    uint32_t end = kShift;
    for (const KvRecord& record : records) {
      placed.push_back({&record.payload, end});
      end += record.tokens();
    }
    Continuations all;
    for (size_t i = 0; i < questions_.size(); ++i) {
      const auto times = session_->Inject(nullptr, placed, end);
      EXPECT_TRUE(times.has_value()) << times.error().message;
      auto made = Continue(*session_, questions_[i], end, kGreedySteps, along.empty() ? Tokens() : along[i].argmax);
      EXPECT_TRUE(made.has_value());
      all.push_back(std::move(*made));
    }
    return all;
  }

  LlamaModelFile file_;
  std::unique_ptr<LlamaSession> session_;
  std::unique_ptr<LlamaTokenizer> tokenizer_;
  std::vector<Tokens> questions_;
};

KvRecord ThroughTheStore(const KvRecord& record, const Calibration& calibration, EncodedRecord& encoded) {
  auto made = EncodeRecord(record, calibration.encoding(), &calibration);
  EXPECT_TRUE(made.has_value()) << made.error().message;
  encoded = std::move(*made);
  EXPECT_EQ(encoded.key.encoding, calibration.encoding()) << "clipped " << encoded.clipped_share();
  const auto owner = std::make_shared<RecordBytes>(encoded.bytes());
  std::byte* to = owner->bytes().data();
  for (const std::string_view piece : encoded.pieces())
    to = std::copy_n(std::as_bytes(std::span(piece)).data(), piece.size(), to);
  auto decoded = DecodeRecord(std::as_const(*owner).bytes(), owner, &calibration);
  EXPECT_TRUE(decoded.has_value()) << decoded.error().message;
  return std::move(*decoded);
}

// Greedy tokens, of all questions, up to each one's first difference.
size_t SameTokens(const Continuations& a, const Continuations& b) {
  size_t same = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const auto end = std::mismatch(a[i].argmax.begin(), a[i].argmax.end(), b[i].argmax.begin());
    same += static_cast<size_t>(end.first - a[i].argmax.begin());
  }
  return same;
}

// The record with its keys read by each channel's neighbour's range.
KvRecord Misread(const KvRecord& record, const Calibration& calibration) {
  std::vector<kernels::KeyQuant> right, wrong;
  for (const KeyChannel& channel : calibration.channels()) right.push_back({channel.scale, channel.zero});
  wrong = right;
  std::rotate(wrong.begin(), wrong.begin() + 1, wrong.end());
  const KvShape& shape = record.payload.shape();
  const kernels::PayloadLayout layout = {{shape.kv_heads, shape.layers, shape.key_dim, shape.value_dim},
                                         record.tokens(),
                                         static_cast<kernels::PayloadEncoding>(calibration.encoding())};
  std::vector<uint8_t> payload(layout.Bytes());
  kernels::QuantisePayload(record.payload.data(), layout, right.data(), payload.data());
  KvRecord misread{record.key, KvPayload(shape, record.tokens())};
  kernels::DequantisePayload(payload.data(), layout, wrong.data(), misread.payload.data());
  return misread;
}

TEST_F(QuantisedTest, AnswersStayAsTheyAre) {
  const std::vector<KvRecord> exact = Records(Purchases());
  const Continuations plain = Ask(exact, {});
  const Calibrator calibrator = Calibrated(exact[0].payload.shape());
  std::printf("calibrated on %u tokens\n", calibrator.tokens());
  struct Expected {
    KvEncoding encoding;
    double cosine;
    size_t same_tokens;  // of 64; up to the first near tie that falls otherwise, so it differs from CPU to CPU
  };
  for (const Expected& want : {Expected{KvEncoding::kInt8, 0.999, 32}, Expected{KvEncoding::kInt4, 0.98, 12}}) {
    const auto calibration = calibrator.Finish(want.encoding);
    ASSERT_TRUE(calibration.has_value()) << calibration.error().message;
    std::vector<KvRecord> stored, misread;
    uint64_t clipped = 0, values = 0;
    double worst = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      EncodedRecord encoded;
      stored.push_back(ThroughTheStore(exact[i], *calibration, encoded));
      clipped += encoded.clipped, values += encoded.key_values;
      worst = std::max(worst, encoded.clipped_share());
      misread.push_back(Misread(exact[i], *calibration));
    }
    const Agreement agreement = Compare(plain, Ask(stored, plain));
    const size_t same = SameTokens(plain, Ask(stored, {}));
    const Agreement wrong = Compare(plain, Ask(misread, plain));
    std::printf(
        "%s: cosine %.6f, deviation %.3f nats, flip %.3f, %zu of %zu greedy tokens; clipped %.3f %%, at most "
        "%.3f %% of a record; misread: cosine %.4f\n",
        want.encoding == KvEncoding::kInt8 ? "int8" : "int4", agreement.cosine, agreement.deviation, agreement.flip,
        same, questions_.size() * kGreedySteps, 100.0 * static_cast<double>(clipped) / static_cast<double>(values),
        100.0 * worst, wrong.cosine);
    EXPECT_GE(agreement.cosine, want.cosine);
    EXPECT_GE(same, want.same_tokens);
    EXPECT_LT(wrong.cosine, want.cosine) << "the test proves nothing";
  }
}

}  // namespace
}  // namespace inferscale
