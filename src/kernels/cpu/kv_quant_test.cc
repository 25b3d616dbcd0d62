#include "kernels/cpu/kv_quant.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/kv_shape.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/cpu_targets_test_util.h"
#include "kernels/cpu/kv_transfer_test_util.h"

namespace inferscale::kernels {
namespace {

constexpr size_t kGuard = 64;
constexpr uint8_t kGuardByte = 0xA5;

double Half(uint16_t bits) { return F16ToF32Scalar(bits); }
uint16_t ToHalf(double value) { return F32ToF16Scalar(static_cast<float>(value)); }
uint16_t HalfAt(const std::vector<uint8_t>& bytes, uint64_t at) {
  return static_cast<uint16_t>(bytes[at] | bytes[at + 1] << 8);
}

// Elements and channels of some distribution, and the oracle: the definitions of kv_quant.h in double precision.
struct Case {
  PayloadLayout layout;
  std::vector<uint16_t> elements;
  std::vector<KeyQuant> channels;

  Case(PayloadEncoding encoding, const PayloadShape& shape, uint32_t tokens, uint32_t seed)
      : layout{shape, tokens, encoding} {
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const double top = encoding == PayloadEncoding::kInt8 ? 255 : 15;
    for (uint32_t i = 0; i < shape.layers * shape.heads * shape.key_dim; ++i) {
      const double middle = 20 * normal(random), width = i % 11 == 0 ? 1e-3 : 6 * std::fabs(normal(random)) + 0.1;
      channels.push_back({std::max<uint16_t>(1, ToHalf(width / top)), ToHalf(middle - width / 2)});
    }
    for (uint32_t head = 0; head < shape.heads; ++head)
      for (uint32_t layer = 0; layer < shape.layers; ++layer) {
        for (uint32_t i = 0; i < tokens * shape.key_dim; ++i) {
          const KeyQuant& channel = ChannelOf(head, layer, i % shape.key_dim);
          // A twentieth is far outside of its channel.
          const double place = random() % 20 == 0 ? 9 * normal(random) : 0.5 + normal(random) / 5;
          elements.push_back(ToHalf(Half(channel.zero) + place * top * Half(channel.scale)));
        }
        for (uint32_t t = 0; t < tokens; ++t) {
          const double size = std::exp2(static_cast<double>(random() % 32) - 22);  // down to zeros and subnormals
          for (uint32_t d = 0; d < shape.value_dim; ++d)
            elements.push_back(t % 7 == 3 ? 0x8000 : ToHalf(size * normal(random) * (random() % 50 == 0 ? 8 : 1)));
        }
      }
  }

  double Top(bool key) const {
    const bool wide = layout.encoding == PayloadEncoding::kInt8;
    return key ? (wide ? 255 : 15) : (wide ? 127 : 7);
  }
  const KeyQuant& ChannelOf(uint32_t head, uint32_t layer, uint32_t d) const {
    return channels[(size_t{layer} * layout.shape.heads + head) * layout.shape.key_dim + d];
  }
  size_t KeyElement(uint32_t head, uint32_t layer, uint32_t t, uint32_t d) const {
    const PayloadShape& s = layout.shape;
    return (size_t{head} * s.layers + layer) * layout.tokens * (s.key_dim + s.value_dim) + size_t{t} * s.key_dim + d;
  }
  size_t ValueElement(uint32_t head, uint32_t layer, uint32_t t, uint32_t d) const {
    return KeyElement(head, layer, layout.tokens, 0) + size_t{t} * layout.shape.value_dim + d;
  }
  // The stored number of element d of a row that begins at `at`, without bias.
  int Quantum(const std::vector<uint8_t>& payload, uint64_t at, uint32_t d, bool key) const {
    if (layout.encoding == PayloadEncoding::kInt8) return key ? payload[at + d] : static_cast<int8_t>(payload[at + d]);
    const int nibble = (payload[at + d / 2] >> (d % 2 * 4)) & 15;
    return key ? nibble : nibble - 8;
  }

  struct Quantised {
    std::vector<uint8_t> payload;
    QuantiseResult result;
  };
  Quantised Quantise() const {
    Quantised out;
    out.payload.assign(layout.Bytes() + kGuard, kGuardByte);
    out.result = QuantisePayload(elements.data(), layout, channels.data(), out.payload.data());
    EXPECT_TRUE(std::all_of(out.payload.end() - kGuard, out.payload.end(), [](uint8_t b) { return b == kGuardByte; }));
    out.payload.resize(layout.Bytes());
    return out;
  }
  std::vector<uint16_t> Dequantise(const std::vector<uint8_t>& payload) const {
    std::vector<uint16_t> out(elements.size() + kGuard, 0xA5A5);
    DequantisePayload(payload.data(), layout, channels.data(), out.data());
    EXPECT_TRUE(std::all_of(out.end() - kGuard, out.end(), [](uint16_t e) { return e == 0xA5A5; }));
    out.resize(elements.size());
    return out;
  }

  // f32 arithmetic may decide otherwise than the oracle only where that is next to a tie: 256 roundings of 2^-24.
  static constexpr double kSlack = 256 * 0x1p-23;

  void CheckQuantised(const Quantised& got) const {
    uint64_t surely = 0, maybe = 0;
    ForEachRow([&](uint32_t head, uint32_t layer, uint32_t t) {
      for (uint32_t d = 0; d < layout.shape.key_dim; ++d) {
        const KeyQuant& channel = ChannelOf(head, layer, d);
        const double x = Half(elements[KeyElement(head, layer, t, d)]);
        const double exact = (x - Half(channel.zero)) / Half(channel.scale);
        const int q = Quantum(got.payload, layout.Key(head, layer, t), d, true);
        ASSERT_LE(std::fabs(std::clamp(exact, 0.0, Top(true)) - q), 0.5 + kSlack) << "head " << head << " d " << d;
        surely += exact < -0.5 - kSlack || exact > Top(true) + 0.5 + kSlack;
        maybe += exact < -0.5 + kSlack || exact > Top(true) + 0.5 - kSlack;
      }
      double largest = 0;
      for (uint32_t d = 0; d < layout.shape.value_dim; ++d)
        largest = std::max(largest, std::fabs(Half(elements[ValueElement(head, layer, t, d)])));
      const uint16_t stored = HalfAt(got.payload, layout.ValueScale(head, layer, t));
      ASSERT_EQ(stored, ToHalf(largest / Top(false)));
      for (uint32_t d = 0; d < layout.shape.value_dim; ++d) {
        const double x = Half(elements[ValueElement(head, layer, t, d)]);
        const double exact = stored == 0 ? 0 : x / Half(stored);
        const int q = Quantum(got.payload, layout.Value(head, layer, t), d, false);
        ASSERT_LE(std::fabs(std::clamp(exact, -Top(false), Top(false)) - q), 0.5 + kSlack) << x << " / " << stored;
      }
    });
    EXPECT_GE(got.result.clipped, surely);
    EXPECT_LE(got.result.clipped, maybe);
    EXPECT_TRUE(got.result.finite);
    ExpectZeroPadding(got.payload);
  }

  void CheckDequantised(const std::vector<uint8_t>& payload, const std::vector<uint16_t>& got) const {
    ForEachRow([&](uint32_t head, uint32_t layer, uint32_t t) {
      for (uint32_t d = 0; d < layout.shape.key_dim; ++d) {
        const KeyQuant& channel = ChannelOf(head, layer, d);
        const int q = Quantum(payload, layout.Key(head, layer, t), d, true);
        ASSERT_EQ(got[KeyElement(head, layer, t, d)], ToHalf(q * Half(channel.scale) + Half(channel.zero)));
      }
      const double scale = Half(HalfAt(payload, layout.ValueScale(head, layer, t)));
      for (uint32_t d = 0; d < layout.shape.value_dim; ++d) {
        const int q = Quantum(payload, layout.Value(head, layer, t), d, false);
        ASSERT_EQ(Half(got[ValueElement(head, layer, t, d)]), Half(ToHalf(q * scale)));
      }
    });
  }

  void ExpectZeroPadding(const std::vector<uint8_t>& payload) const {
    std::vector<bool> used(payload.size());
    const auto use = [&](uint64_t at, uint64_t bytes) {
      for (uint64_t i = 0; i < bytes; ++i) {
        ASSERT_FALSE(used[at + i]) << "two things in one place";
        used[at + i] = true;
      }
    };
    ForEachRow([&](uint32_t head, uint32_t layer, uint32_t t) {
      use(layout.Key(head, layer, t), layout.KeyRowBytes());
      use(layout.Value(head, layer, t), layout.ValueRowBytes());
      use(layout.ValueScale(head, layer, t), 2);
    });
    for (size_t i = 0; i < payload.size(); ++i) ASSERT_TRUE(used[i] || payload[i] == 0) << "padding at " << i;
  }

  template <class Visit>
  void ForEachRow(Visit visit) const {
    for (uint32_t head = 0; head < layout.shape.heads; ++head)
      for (uint32_t layer = 0; layer < layout.shape.layers; ++layer)
        for (uint32_t t = 0; t < layout.tokens; ++t) visit(head, layer, t);
  }
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  uint32_t seed = 1;
  for (const PayloadEncoding encoding : {PayloadEncoding::kInt8, PayloadEncoding::kInt4}) {
    for (const auto& [key, value] : std::vector<std::pair<uint32_t, uint32_t>>{{1, 1},
                                                                               {2, 2},
                                                                               {3, 5},
                                                                               {8, 8},
                                                                               {18, 34},
                                                                               {31, 33},
                                                                               {64, 64},
                                                                               {80, 80},
                                                                               {96, 128},
                                                                               {127, 64},
                                                                               {128, 128},
                                                                               {192, 128},
                                                                               {256, 256},
                                                                               {576, 512},
                                                                               {1023, 7},
                                                                               {1024, 1024}}) {
      if (encoding == PayloadEncoding::kInt4 && (key % 2 != 0 || value % 2 != 0)) continue;
      const bool large = key > 256;
      cases.emplace_back(encoding, PayloadShape{2, large ? 1u : 3u, key, value}, large ? 5 : 13, seed++);
    }
  }
  cases.emplace_back(PayloadEncoding::kInt8, PayloadShape{1, 1, 4, 4}, 1, seed++);
  return cases;
}

TEST(KvQuantTest, EqualsTheOracleOnEveryTarget) {
  for (const Case& test : Cases()) {
    SCOPED_TRACE(std::to_string(test.layout.shape.key_dim) + " and " + std::to_string(test.layout.shape.value_dim));
    std::vector<uint8_t> first;
    ForEachCpuTarget([&] {
      const Case::Quantised got = test.Quantise();
      test.CheckQuantised(got);
      if (first.empty()) first = got.payload;
      EXPECT_EQ(got.payload, first) << "targets differ";
      test.CheckDequantised(got.payload, test.Dequantise(got.payload));
    });
  }
}

// Any bytes are a payload: every quantum, and scales of all kinds but NaN.
TEST(KvQuantTest, EveryQuantumHasItsValue) {
  for (const Case& test : Cases()) {
    std::mt19937 random(7);
    std::vector<uint8_t> payload(test.layout.Bytes());
    for (uint8_t& byte : payload) byte = static_cast<uint8_t>(random());
    test.ForEachRow([&](uint32_t head, uint32_t layer, uint32_t t) {
      payload[test.layout.ValueScale(head, layer, t) + 1] &= 0x3F;  // below 2
    });
    ForEachCpuTarget([&] { test.CheckDequantised(payload, test.Dequantise(payload)); });
  }
}

// What is within its channel's range comes back within half a step, values within half of their row's.
TEST(KvQuantTest, RoundTripIsWithinHalfAStep) {
  for (const Case& test : Cases()) {
    const std::vector<uint16_t> back = test.Dequantise(test.Quantise().payload);
    test.ForEachRow([&](uint32_t head, uint32_t layer, uint32_t t) {
      for (uint32_t d = 0; d < test.layout.shape.key_dim; ++d) {
        const KeyQuant& channel = test.ChannelOf(head, layer, d);
        const size_t at = test.KeyElement(head, layer, t, d);
        const double low = Half(channel.zero), high = low + test.Top(true) * Half(channel.scale);
        const double want = std::clamp(Half(test.elements[at]), low, high);
        const double rounding = std::ldexp(std::max(std::fabs(low), std::fabs(high)), -11) + 0x1p-25;
        ASSERT_LE(std::fabs(Half(back[at]) - want), (0.5 + Case::kSlack) * Half(channel.scale) + rounding);
      }
      double largest = 0;
      for (uint32_t d = 0; d < test.layout.shape.value_dim; ++d)
        largest = std::max(largest, std::fabs(Half(test.elements[test.ValueElement(head, layer, t, d)])));
      for (uint32_t d = 0; d < test.layout.shape.value_dim; ++d) {
        const size_t at = test.ValueElement(head, layer, t, d);
        // The scale's own rounding moves the largest value by 2^-11 of itself; where the scale is subnormal, by half of
        // 2^-24 for each of its steps.
        const double bound = largest / test.Top(false) * 0.51 + largest * 0x1p-10 + (test.Top(false) + 1) * 0x1p-25;
        ASSERT_LE(std::fabs(Half(back[at]) - Half(test.elements[at])), bound) << largest;
      }
    });
  }
}

TEST(KvQuantTest, InfinityAndNanAreReported) {
  const Case good(PayloadEncoding::kInt8, {2, 2, 19, 21}, 5, 3);
  const uint16_t bad[] = {0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01};
  ForEachCpuTarget([&] {
    for (size_t i = 0; i < good.elements.size(); i += 3) {
      Case test = good;
      test.elements[i] = bad[i % std::size(bad)];
      ASSERT_FALSE(test.Quantise().result.finite) << i;
    }
    Case largest = good;
    largest.elements[5] = 0x7BFF;
    largest.elements.back() = 0xFBFF;
    EXPECT_TRUE(largest.Quantise().result.finite);
  });
}

TEST(KvQuantTest, LayoutIsThatOfTheFileFormat) {
  for (const Case& test : Cases()) {
    const PayloadShape& s = test.layout.shape;
    const KvShape shape = {s.layers, s.heads, s.key_dim, s.value_dim};
    EXPECT_EQ(test.layout.Bytes(),
              shape.PayloadBytes(test.layout.tokens, static_cast<KvEncoding>(test.layout.encoding)));
  }
  EXPECT_EQ(1'783'296u, (KvShape{32, 8, 128, 128}.PayloadBytes(27, KvEncoding::kInt8)));
  EXPECT_EQ(898'560u, (KvShape{32, 8, 128, 128}.PayloadBytes(27, KvEncoding::kInt4)));
}

// The kernels that serve a GPU's cache, here on the CPU: an f16 cache without rotation that lies as the elements do.
class WithTransfer {
 public:
  explicit WithTransfer(const Case& test) : test_(test), layout_(test.layout) {}

  std::vector<uint8_t> Run(KvDirection direction, std::vector<uint8_t> payload, std::vector<uint16_t>& cache,
                           uint32_t& status) {
    const int64_t dim = layout_.shape.key_dim, tokens = layout_.tokens;
    std::vector<CacheLayer> layers;
    for (uint32_t l = 0; l < layout_.shape.layers; ++l) {
      CacheLayer layer;
      layer.base = reinterpret_cast<uint8_t*>(cache.data() + l * tokens * 2 * dim);
      layer.head_stride = layout_.shape.layers * tokens * 2 * dim * 2;
      layer.token_stride = dim * 2;
      layer.value_offset = tokens * dim * 2;
      layer.record_layer = l;
      layer.block_size = layout_.tokens;
      layer.block_count = 1;
      layer.type = CacheType::kF16;
      layers.push_back(layer);
    }
    KvSource source;
    source.payload = payload.data();
    source.payload_bytes = payload.size();
    source.calibration = test_.channels.data();
    source.tokens = layout_.tokens;
    source.encoding = layout_.encoding;
    const KvSpan span = {0, 0, layout_.tokens, 0};
    const int32_t block = 0;
    const std::span<const int32_t> table(&block, 1);
    const KvRequest request = {{&span, 1}, {&table, 1}};
    KvBatch batch;
    batch.shape = layout_.shape;
    batch.sources = {&source, 1};
    batch.requests = {&request, 1};
    batch.layers = layers;
    const KvOutcome outcome = RunOnCpu(batch, direction, std::move(payload));
    status = outcome.status.at(0);
    return outcome.memory;
  }

 private:
  const Case& test_;
  PayloadLayout layout_;
};

TEST(KvQuantTest, EqualsExtractAndInject) {
  for (const Case& test : Cases()) {
    if (test.layout.shape.key_dim != test.layout.shape.value_dim) continue;
    const Case::Quantised ours = test.Quantise();
    WithTransfer transfer(test);
    std::vector<uint16_t> cache = test.elements;
    uint32_t clipped = 0, status = 0;
    EXPECT_EQ(transfer.Run(KvDirection::kExtract, std::vector<uint8_t>(test.layout.Bytes()), cache, clipped),
              ours.payload);
    EXPECT_EQ(clipped, ours.result.clipped);
    std::vector<uint16_t> injected(test.elements.size());
    transfer.Run(KvDirection::kInject, ours.payload, injected, status);
    EXPECT_EQ(injected, test.Dequantise(ours.payload)) << test.layout.shape.key_dim;
  }
}

}  // namespace
}  // namespace inferscale::kernels
