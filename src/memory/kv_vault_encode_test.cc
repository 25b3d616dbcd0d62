// Records as int8 and int4: exact first, quantised when there is a calibration, and never read with another one.
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <random>

#include "base/limits.h"
#include "kernels/cpu/convert.h"
#include "memory/kv_vault.h"
#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

constexpr size_t kRepeat = 100;  // 300 tokens: seven are enough for a calibration
constexpr int kEnough = 7;
static_assert((kEnough - 1) * 3 * kRepeat < limits::kCalibrationTokensMin &&
              kEnough * 3 * kRepeat >= limits::kCalibrationTokensMin);

class KvVaultEncodeTest : public MemoryTest, public testing::WithParamInterface<KvEncoding> {
 protected:
  void OpenAs(std::optional<KvEncoding> encoding) {
    MemoryOptions options = Options();
    options.kv_encoding = encoding;
    Open(options);
  }
  // A fact with a record of normal numbers times `spread`, which is kept for comparing.
  void Store(const std::string& id, float spread = 1) {
    RememberText(kAda, "fact " + id, id);
    const FactRow fact = Fact(kAda, id);
    auto record = std::const_pointer_cast<KvRecord>(MakeRecord(kAda, fact, {}, kKvModel, kRepeat));
    std::mt19937 random(static_cast<uint32_t>(fact.seq));
    std::normal_distribution<float> normal(0.0f, spread);
    std::vector<float>& values = stored_[id];
    for (size_t i = 0; i < record->payload.elements(); ++i) values.push_back(normal(random));
    kernels::F32ToF16(values.data(), record->payload.data(), values.size());
    kernels::F16ToF32(record->payload.data(), values.data(), values.size());
    const NewRecord put{fact.seq, record, {}};
    const auto done = memory().vault().Put(Space(kAda).id, {&put, 1});
    ASSERT_TRUE(done) << done.error().message;
    ASSERT_TRUE(done->at(0));
  }
  KvEncoding EncodingOf(const std::string& id) {
    const FactSeq seq = Fact(kAda, id).seq;
    const auto rows = memory().catalog().UsableRecords(Space(kAda).id, kKvModel, {&seq, 1});
    EXPECT_TRUE(rows && rows->size() == 1);
    return rows && rows->size() == 1 ? rows->at(0).encoding : KvEncoding::kBf16;
  }
  // The largest difference to what was stored; infinite when there is no record.
  float Distance(const std::string& id) {
    const RecordHandle record = Load(kAda, id, kRepeat);
    if (record == nullptr) return INFINITY;
    std::vector<float> values(record->payload.elements());
    kernels::F16ToF32(record->payload.data(), values.data(), values.size());
    float most = 0;
    for (size_t i = 0; i < values.size(); ++i) most = std::max(most, std::fabs(values[i] - stored_[id][i]));
    return most;
  }
  std::vector<fs::path> Calibrations() const {
    std::vector<fs::path> all;
    if (fs::exists(folder_ / "data" / "calibrations"))
      for (const auto& entry : fs::directory_iterator(folder_ / "data" / "calibrations")) all.push_back(entry.path());
    return all;
  }
  std::string Id(int i) { return "f" + std::to_string(i); }

  std::map<std::string, std::vector<float>> stored_;
};

TEST_P(KvVaultEncodeTest, ExactUntilThereIsEnoughToCalibrateWith) {
  const KvEncoding encoding = GetParam();
  OpenAs(encoding);
  for (int i = 0; i < kEnough; ++i) {
    Store(Id(i));
    EXPECT_EQ(EncodingOf(Id(i)), KvEncoding::kF16);
    EXPECT_THAT(Calibrations(), IsEmpty());
    if (i == 3) OpenAs(std::nullopt);  // what is counted, and what is asked for, outlives a process
  }
  for (int i = kEnough; i < kEnough + 3; ++i) {
    Store(Id(i));
    EXPECT_EQ(EncodingOf(Id(i)), encoding);
  }
  EXPECT_EQ(Calibrations().size(), 1u);
  const QuantisedStats stats = memory().vault().quantised_stats();
  EXPECT_EQ(stats.records, 3u);
  EXPECT_EQ(stats.exact, 3u) << "of this process";
  EXPECT_EQ(stats.key_values, 3u * 300 * kKvShape.layers * kKvShape.kv_heads * kKvShape.key_dim);
  EXPECT_LT(static_cast<double>(stats.clipped) / static_cast<double>(stats.key_values), 0.01);
  EXPECT_GT(stats.clipped, 0u) << "0.2 % by the calibration's making";
  for (const bool again : {false, true}) {
    if (again) OpenAs(std::nullopt);
    for (int i = 0; i < kEnough; ++i) EXPECT_EQ(Distance(Id(i)), 0.0f);
    // Normal numbers reach 4.5 and are cut at 3.1; a step of int4 is 0.4.
    for (int i = kEnough; i < kEnough + 3; ++i) {
      const float distance = Distance(Id(i));
      EXPECT_GT(distance, 0.0f);
      EXPECT_LT(distance, 2.0f);
    }
  }
  const MemoryStats all = *memory().Stats();
  EXPECT_EQ(all.records, kEnough + 3u);
  EXPECT_EQ(all.records_as.at(encoding), 3u);
  EXPECT_EQ(all.kv_encoding, encoding);
  EXPECT_THAT(Findings(), IsEmpty());
}

TEST_P(KvVaultEncodeTest, WithoutItsCalibrationARecordIsNotUsed) {
  for (const bool damaged : {true, false}) {
    OpenAs(GetParam());
    const std::string a = damaged ? "a" : "b";
    for (int i = 0; i <= kEnough; ++i) Store(a + Id(i));
    ASSERT_EQ(EncodingOf(a + Id(kEnough)), GetParam());
    Close();
    for (const fs::path& path : Calibrations()) {
      if (damaged) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(100);
        file.put('?');
        file.put('!');
      } else {
        fs::remove(path);
      }
    }
    Open();
    EXPECT_EQ(Load(kAda, a + Id(kEnough), kRepeat), nullptr);
    EXPECT_TRUE(IsQueued(kAda, a + Id(kEnough)));
    EXPECT_EQ(Distance("a" + Id(0)), 0.0f) << "an exact one needs none";
    // There is enough for another one at once.
    Store(a + "new");
    EXPECT_EQ(EncodingOf(a + "new"), GetParam());
    EXPECT_LT(Distance(a + "new"), 2.0f);
  }
}

TEST_P(KvVaultEncodeTest, RecordsThatTheCalibrationDoesNotFitStayExact) {
  OpenAs(GetParam());
  for (int i = 0; i < kEnough; ++i) Store(Id(i));
  Store("wild", 5);
  EXPECT_EQ(EncodingOf("wild"), KvEncoding::kF16);
  EXPECT_EQ(Distance("wild"), 0.0f);
  Store("tame");
  EXPECT_EQ(EncodingOf("tame"), GetParam());
}

TEST_P(KvVaultEncodeTest, EncodingsLieSideBySide) {
  OpenAs(GetParam());
  for (int i = 0; i <= kEnough; ++i) Store(Id(i));
  OpenAs(KvEncoding::kF16);
  Store("exact");
  EXPECT_EQ(EncodingOf("exact"), KvEncoding::kF16);
  EXPECT_EQ(EncodingOf(Id(kEnough)), GetParam());
  EXPECT_LT(Distance(Id(kEnough)), 2.0f);
  OpenAs(std::nullopt);
  EXPECT_EQ(memory().vault().encoding(), KvEncoding::kF16);
}

TEST_P(KvVaultEncodeTest, ForgottenBytesAreGone) {
  OpenAs(GetParam());
  for (int i = 0; i <= kEnough; ++i) Store(Id(i));
  const auto rows = memory().catalog().RecordsOf(Space(kAda).id, 100).value();
  const KvLocation at = rows.back().location;
  ASSERT_EQ(rows.back().encoding, GetParam());
  std::ifstream segment(fs::directory_iterator(folder_ / "data" / "kv")->path(), std::ios::binary);
  std::string bytes(64, '\0');
  segment.seekg(static_cast<std::streamoff>(at.offset + at.bytes / 2));
  segment.read(bytes.data(), 64);
  ASSERT_NE(AllFiles(folder_).find(bytes), std::string::npos);
  Forget(kAda, {Id(kEnough)});
  EXPECT_EQ(AllFiles(folder_).find(bytes), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(Encodings, KvVaultEncodeTest, testing::Values(KvEncoding::kInt8, KvEncoding::kInt4),
                         [](const auto& info) { return std::string(KvEncodingName(info.param)); });

}  // namespace
}  // namespace inferscale
