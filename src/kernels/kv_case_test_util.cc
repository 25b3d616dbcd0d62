#include "kernels/kv_case_test_util.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>
#include <sstream>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/small_float.h"

namespace inferscale::kernels {
namespace {

constexpr uint8_t kGuard = 0xA5;
constexpr size_t kGuardBytes = 64;

template <class T>
T Load(const std::vector<uint8_t>& memory, size_t at) {
  T value;
  std::memcpy(&value, memory.data() + at, sizeof value);
  return value;
}
template <class T>
void Store(std::vector<uint8_t>& memory, size_t at, T value) {
  std::memcpy(memory.data() + at, &value, sizeof value);
}

// Strides in elements of the dimensions named in `order`; D of `pitch` elements is innermost.
std::map<char, int64_t> Strides(const std::string& order, const std::map<char, int64_t>& sizes, int64_t pitch) {
  std::map<char, int64_t> strides;
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = pitch;
    pitch *= sizes.at(order[i]);
  }
  strides['*'] = pitch;  // elements of all
  return strides;
}

}  // namespace

std::string KvCaseSpec::Name() const {
  std::ostringstream out;
  out << order << " type " << int(type) << " encodings";
  for (const PayloadEncoding encoding : encodings) out << ' ' << int(encoding);
  out << " table " << int(table) << " pairing " << int(pairing) << " rotary " << rotary_dims << " heads " << heads
      << " layers " << layers << " dims " << key_dim << '/' << value_dim << " block " << block_size << 'x'
      << blocks_per_entry << " start " << start << '/' << source_first << " requests " << requests << " facts " << facts
      << 'x' << fact_tokens << " pad " << pad << " shift " << shift << (hybrid ? " hybrid" : "")
      << (some_layers ? " some layers" : "") << " seed " << seed;
  return out.str();
}

KvCase::KvCase(KvCaseSpec spec, KvDirection direction) : spec_(std::move(spec)) {
  groups_ = spec_.hybrid ? 2 : 1;
  MakeRecords();
  MakeRequests();
  MakeRopes();
  MakeCache();
  Take(kGuardBytes, 1);
  if (direction == KvDirection::kExtract) {
    FillCache();
    for (Record& record : records_) record.stamp = 0;
  } else {
    for (const Record& record : records_) FillRecord(record);
  }
}

size_t KvCase::Take(size_t bytes, size_t align) {
  const size_t at = (memory_.size() + kGuardBytes + align - 1) / align * align;
  memory_.resize(at + bytes, kGuard);
  return at;
}

void KvCase::MakeRecords() {
  const PayloadShape shape{spec_.heads, spec_.layers, spec_.key_dim, spec_.value_dim};
  std::mt19937 random(spec_.seed);
  for (uint32_t i = 0; i < spec_.requests * spec_.facts; ++i) {
    Record record;
    record.layout = {shape, spec_.fact_tokens + i % 3, spec_.encodings[i % spec_.encodings.size()]};
    record.expected = {{random(), i}, 1, i + 1};
    record.stamp = Take(sizeof(RecordStamp), 16);
    Store(memory_, record.stamp, record.expected);
    record.payload = Take(record.layout.Bytes(), 16);
    records_.push_back(record);
  }
  calibration_ = Take(size_t{shape.heads} * shape.layers * shape.key_dim * sizeof(KeyQuant), 16);
  for (size_t i = 0; i < size_t{shape.heads} * shape.layers * shape.key_dim; ++i) {
    const KeyQuant quant{F32ToF16Scalar(0.01f + static_cast<float>(random() % 100) * 0.001f),
                         F32ToF16Scalar(-static_cast<float>(random() % 1000) * 0.01f)};
    Store(memory_, calibration_ + i * sizeof(KeyQuant), quant);
  }
}

void KvCase::MakeRequests() {
  std::mt19937 random(spec_.seed + 1);
  for (uint32_t r = 0; r < spec_.requests; ++r) {
    std::vector<KvSpan> spans;
    uint32_t position = spec_.start;
    for (uint32_t f = 0; f < spec_.facts; ++f) {
      const uint32_t source = (r * spec_.facts + f) * 7 % static_cast<uint32_t>(records_.size());
      const uint32_t tokens = records_[source].layout.tokens;
      const uint32_t first = std::min(spec_.source_first, tokens - 1);
      const uint32_t last = first > 0 && tokens > first + 1 ? tokens - 1 : tokens;
      spans.push_back({source, first, last - first, position});
      position += last - first + (f == 1 ? 3 : 0);  // a gap of three positions
    }
    spans_.push_back(spans);
    std::vector<std::vector<int32_t>> tables(groups_);
    for (uint32_t g = 0; g < groups_; ++g) {
      const uint32_t per_entry = spec_.block_size * spec_.blocks_per_entry * (g + 1);
      tables[g].resize((position + per_entry - 1) / per_entry);
    }
    tables_.push_back(tables);
  }
  // Every entry its own block, in no order; block 0 is the null block.
  for (uint32_t g = 0; g < groups_; ++g) {
    std::vector<int32_t> free;
    for (const auto& tables : tables_) {
      for (size_t e = 0; e < tables[g].size(); ++e) free.push_back(static_cast<int32_t>(free.size()) + 1);
    }
    std::shuffle(free.begin(), free.end(), random);
    for (auto& tables : tables_) {
      for (int32_t& entry : tables[g]) {
        entry = free.back();
        free.pop_back();
      }
      const uint32_t per_entry = spec_.block_size * spec_.blocks_per_entry * (g + 1);
      if (g == 1) std::fill_n(tables[g].begin(), std::min<size_t>(tables[g].size(), spec_.start / per_entry + 1), 0);
    }
  }
}

void KvCase::MakeRopes() {
  if (spec_.rotary_dims == 0) return;
  uint32_t positions = 0;
  for (const auto& spans : spans_) positions = std::max(positions, spans.back().position + spans.back().tokens);
  const uint32_t bytes = spec_.table == TableType::kF32 ? 4 : 2;
  for (uint32_t v = 0; v < groups_; ++v) {
    const RopeRows rope{.row_stride = uint64_t{spec_.rotary_dims} * bytes,
                        .positions = positions,
                        .rotary_dims = spec_.rotary_dims,
                        .type = spec_.table,
                        .pairing = spec_.pairing};
    const size_t at = Take(positions * rope.row_stride, 16);
    const uint32_t half = spec_.rotary_dims / 2;
    for (uint32_t p = 0; p < positions; ++p) {
      for (uint32_t i = 0; i < spec_.rotary_dims; ++i) {
        const double angle = p * std::pow(v == 0 ? 10000.0 : 500.0, -static_cast<double>(i % half) / half);
        // 1.07: a YaRN magnitude.
        const auto value = static_cast<float>(1.07 * (i < half ? std::cos(angle) : std::sin(angle)));
        const size_t to = at + p * rope.row_stride + i * bytes;
        bytes == 4 ? Store(memory_, to, value) : Store(memory_, to, F32ToBf16(value));
      }
    }
    ropes_.push_back(rope);
    rope_base_.push_back(at);
  }
}

void KvCase::MakeCache() {
  std::vector<uint32_t> present;
  for (uint32_t l = 0; l < spec_.layers; ++l) {
    if (!spec_.some_layers || l % 3 != 2) present.push_back(l);
  }
  const int64_t element = BytesPerElement(spec_.type);
  for (uint32_t g = 0; g < groups_; ++g) {
    std::vector<uint32_t> mine;
    for (const uint32_t l : present) {
      if (l % groups_ == g) mine.push_back(l);
    }
    int64_t entries = 1;
    for (const auto& tables : tables_) entries += static_cast<int64_t>(tables[g].size());
    const int64_t blocks = entries * spec_.blocks_per_entry, tokens = int64_t{spec_.block_size} * (g + 1);
    const auto strides =
        Strides(spec_.order, {{'L', mine.size()}, {'B', blocks}, {'K', 2}, {'N', tokens}, {'H', spec_.heads}},
                std::max(spec_.key_dim, spec_.value_dim) + spec_.pad);
    const size_t at = Take((strides.at('*') + spec_.shift) * element, 256) + spec_.shift * element;
    for (size_t i = 0; i < mine.size(); ++i) {
      const bool fp8 = spec_.type == CacheType::kFp8E4m3;
      layer_base_.push_back(at + i * strides.at('L') * element);
      layers_.push_back({.block_stride = strides.at('B') * element,
                         .head_stride = strides.at('H') * element,
                         .token_stride = strides.at('N') * element,
                         .key_offset = 0,
                         .value_offset = strides.at('K') * element,
                         .key_scale = fp8 ? 0.05f + 0.01f * static_cast<float>(mine[i]) : 1.0f,
                         .value_scale = fp8 ? 0.11f : 1.0f,
                         .record_layer = mine[i],
                         .rope = ropes_.empty() || (spec_.some_layers && mine[i] == present.back()) ? kNoRope : g,
                         .group = g,
                         .block_size = static_cast<uint32_t>(tokens),
                         .blocks_per_entry = spec_.blocks_per_entry,
                         .block_count = static_cast<uint32_t>(blocks),
                         .type = spec_.type});
    }
  }
}

void KvCase::FillRecord(const Record& record) {
  std::mt19937 random(spec_.seed + static_cast<uint32_t>(record.payload));
  std::normal_distribution<float> normal(0.0f, 4.0f);
  const PayloadLayout& at = record.layout;
  if (!IsQuantised(at.encoding)) {
    for (size_t i = 0; i < at.Bytes(); i += 2) {
      const float x = normal(random);
      Store(memory_, record.payload + i, at.encoding == PayloadEncoding::kBf16 ? F32ToBf16(x) : F32ToF16Scalar(x));
    }
    return;
  }
  for (size_t i = 0; i < at.Bytes(); ++i) {
    const auto byte = static_cast<uint8_t>(random());
    // -128, and -8 in int4, are never written by a quantiser but must not be misread either.
    memory_[record.payload + i] = byte;
  }
  for (uint32_t h = 0; h < at.shape.heads; ++h) {
    for (uint32_t i = 0; i < at.shape.layers * at.tokens; ++i) {
      const float scale = 0.001f + static_cast<float>(random() % 100) * 0.001f;
      Store(memory_, record.payload + at.ValueScale(h, 0, i), F32ToF16Scalar(scale));
    }
  }
}

void KvCase::FillCache() {
  std::mt19937 random(spec_.seed + 2);
  std::normal_distribution<float> normal(0.0f, 4.0f);
  ForEachPlace([&](const Place& place) {
    for (const bool key : {true, false}) {
      const size_t at = place.cell + (key ? place.layer->key_offset : place.layer->value_offset);
      for (uint32_t d = 0; d < (key ? spec_.key_dim : spec_.value_dim); ++d) {
        const float x = normal(random);
        if (spec_.type == CacheType::kBf16) Store(memory_, at + 2 * d, F32ToBf16(x));
        if (spec_.type == CacheType::kF16) Store(memory_, at + 2 * d, F32ToF16Scalar(x));
        if (spec_.type == CacheType::kFp8E4m3) memory_[at + d] = F32ToFp8(x * 10);
      }
    }
  });
}

// Every row that the batch moves.
void KvCase::ForEachPlace(const std::function<void(const Place&)>& visit) const {
  for (size_t r = 0; r < spans_.size(); ++r) {
    for (const KvSpan& span : spans_[r]) {
      for (uint32_t t = 0; t < span.tokens; ++t) {
        for (size_t l = 0; l < layers_.size(); ++l) {
          const CacheLayer& layer = layers_[l];
          const uint32_t position = span.position + t;
          const uint32_t block = position / layer.block_size;
          const int32_t entry = tables_[r][layer.group][block / layer.blocks_per_entry];
          if (entry == 0) continue;
          const int64_t number = int64_t{entry} * layer.blocks_per_entry + block % layer.blocks_per_entry;
          for (uint32_t h = 0; h < spec_.heads; ++h) {
            visit(Place{&records_[span.source], span.source, span.source_first + t, position, h, &layer,
                        layer_base_[l] + number * layer.block_stride + h * layer.head_stride +
                            (position % layer.block_size) * layer.token_stride});
          }
        }
      }
    }
  }
}

KeyQuant KvCase::Channel(uint32_t layer, uint32_t head, uint32_t d) const {
  const size_t index = (size_t{layer} * spec_.heads + head) * spec_.key_dim + d;
  return Load<KeyQuant>(memory_, calibration_ + index * sizeof(KeyQuant));
}

const KvBatch& KvCase::Batch(uint8_t* base) {
  batch_sources_.clear(), batch_requests_.clear(), batch_tables_.clear(), batch_layers_ = layers_,
                                                                          batch_ropes_ = ropes_;
  for (const Record& record : records_) {
    batch_sources_.push_back(
        {.payload = base + record.payload,
         .payload_bytes = record.layout.Bytes(),
         .stamp = record.stamp == 0 ? nullptr : reinterpret_cast<const RecordStamp*>(base + record.stamp),
         .expected = record.expected,
         .calibration = reinterpret_cast<const KeyQuant*>(base + calibration_),
         .tokens = record.layout.tokens,
         .encoding = record.layout.encoding});
  }
  for (size_t i = 0; i < layers_.size(); ++i) batch_layers_[i].base = base + layer_base_[i];
  for (size_t i = 0; i < ropes_.size(); ++i) batch_ropes_[i].rows = base + rope_base_[i];
  for (const auto& tables : tables_) batch_tables_.emplace_back(tables.begin(), tables.end());
  for (size_t r = 0; r < spans_.size(); ++r) batch_requests_.push_back({spans_[r], batch_tables_[r]});
  batch_ = {.shape = records_[0].layout.shape,
            .sources = batch_sources_,
            .requests = batch_requests_,
            .layers = batch_layers_,
            .ropes = batch_ropes_,
            .groups = groups_,
            .null_block = 0};
  return batch_;
}

void KvCase::BreakStamp(uint32_t source) {
  RecordStamp stamp = records_[source].expected;
  ++stamp.generation;
  Store(memory_, records_[source].stamp, stamp);
}

}  // namespace inferscale::kernels
