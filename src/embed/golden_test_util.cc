#include "embed/golden_test_util.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace inferscale::testing {

namespace {

std::string TestData(const char* name) {
  const auto content = ReadFile(std::filesystem::path(INFERSCALE_TEST_DATA) / "embed" / name, 4 << 20);
  EXPECT_TRUE(content) << content.error().message;
  return content.value_or("");
}

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  template <class T>
  T Get() {
    T value{};
    if (at_ + sizeof value <= bytes_.size())
      std::memcpy(&value, bytes_.data() + at_, sizeof value);
    else
      ADD_FAILURE() << "a golden file is too short";
    at_ += sizeof value;
    return value;
  }
  bool AtEnd() const { return at_ == bytes_.size(); }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

float FromHalf(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                   : std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

}  // namespace

std::vector<GoldenSentence> GoldenSentences() {
  Reader reader(TestData("minilm.golden"));
  EXPECT_EQ(reader.Get<uint64_t>(), 0x3130444C4F475349u) << "not \"ISGOLD01\"";
  const auto count = reader.Get<uint32_t>(), dim = reader.Get<uint32_t>();
  const auto json = nlohmann::json::parse(TestData("sentences.json"));
  EXPECT_EQ(json.size(), count) << "run tools/golden_minilm.py again";
  std::vector<GoldenSentence> sentences;
  for (const auto& item : json) {
    GoldenSentence& s = sentences.emplace_back();
    s.script = item.at("script");
    s.text = item.at("text");
    s.uncut = reader.Get<uint32_t>();
    s.ids.resize(reader.Get<uint32_t>());
    for (int32_t& id : s.ids) id = reader.Get<uint16_t>();
    s.vector.resize(dim);
    for (float& x : s.vector) x = FromHalf(reader.Get<uint16_t>());
  }
  EXPECT_TRUE(reader.AtEnd());
  return sentences;
}

std::vector<uint64_t> GoldenCodePointBlocks() {
  Reader reader(TestData("code_points.golden"));
  std::vector<uint64_t> blocks(0x110000 / 4096);
  for (uint64_t& block : blocks) block = reader.Get<uint64_t>();
  EXPECT_TRUE(reader.AtEnd());
  return blocks;
}

std::filesystem::path MiniLmForTest() {
  const char* folder = std::getenv("INFERSCALE_MODEL_DIR");
  return folder == nullptr ? "" : std::filesystem::path(folder) / "all-MiniLM-L6-v2.f16.gguf";
}

}  // namespace inferscale::testing
