#include "kernels/kv_plan_builder.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "base/assert.h"
#include "kernels/kv_plan_check.h"

namespace inferscale::kernels {
namespace {

constexpr size_t kAlign = 16;

size_t Aligned(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

struct Counts {
  size_t spans = 0;
  size_t tokens = 0;
  size_t blocks = 0;
};

Counts Count(const KvBatch& batch) {
  Counts counts;
  for (const KvRequest& request : batch.requests) {
    counts.spans += request.spans.size();
    for (const KvSpan& span : request.spans) counts.tokens += span.tokens;
    for (const auto& table : request.tables) counts.blocks += table.size();
  }
  return counts;
}

size_t Tiles(size_t tokens) { return (tokens + kPlanTile - 1) / kPlanTile; }

// Hands out the parts of the buffer, one after the other.
class Writer {
 public:
  explicit Writer(uint8_t* base) : base_(base) {}

  template <class T>
  T* Take(size_t count) {
    T* here = reinterpret_cast<T*>(base_ + used_);
    used_ += Aligned(count * sizeof(T));
    return here;
  }
  template <class T>
  T* Copy(std::span<const T> values) {
    static_assert(std::is_trivially_copyable_v<T>);
    T* here = Take<T>(values.size());
    if (!values.empty()) std::memcpy(here, values.data(), values.size_bytes());
    return here;
  }
  size_t used() const { return used_; }

 private:
  uint8_t* base_;
  size_t used_ = 0;
};

// Spans in the requests' order; empty ones are left out. Returns how many.
uint32_t WriteSpans(const KvBatch& batch, KvPlanSpan* spans) {
  uint32_t count = 0, first = 0;
  for (size_t r = 0; r < batch.requests.size(); ++r) {
    for (const KvSpan& span : batch.requests[r].spans) {
      if (span.tokens == 0) continue;
      const KvSource& source = batch.sources[span.source];
      spans[count++] = {.payload = source.payload,
                        .record_tokens = source.tokens,
                        .source_first = span.source_first,
                        .position = span.position,
                        .first = first,
                        .end = first + span.tokens,
                        .request = static_cast<uint32_t>(r),
                        .source = span.source,
                        .encoding = source.encoding};
      first += span.tokens;
    }
  }
  return count;
}

void WriteTiles(std::span<const KvPlanSpan> spans, KvPlanTile* tiles) {
  uint32_t tile = 0;
  for (uint32_t s = 0; s < spans.size(); ++s) {
    const uint32_t second = s + 1 < spans.size() ? s + 1 : s;
    for (; tile * kPlanTile < spans[s].end; ++tile) tiles[tile] = {{spans[s], spans[second]}, second};
  }
}

void WriteTables(const KvBatch& batch, uint32_t* table_first, int32_t* blocks) {
  uint32_t used = 0;
  for (const KvRequest& request : batch.requests) {
    for (const auto& table : request.tables) {
      *table_first++ = used;
      std::copy(table.begin(), table.end(), blocks + used);
      used += static_cast<uint32_t>(table.size());
    }
  }
}

bool SameGeometry(const CacheLayer& a, const CacheLayer& b) {
  return a.block_stride == b.block_stride && a.token_stride == b.token_stride && a.group == b.group &&
         a.block_size == b.block_size && a.blocks_per_entry == b.blocks_per_entry;
}

// A layer's geometry is the first layer like it. Most models have one, some (full and sliding-window layers) two.
void NumberGeometries(CacheLayer* layers, uint32_t count) {
  for (uint32_t l = 0; l < count; ++l) {
    layers[l].geometry = l;
    for (uint32_t first = 0; first < l; ++first) {
      if (layers[first].geometry == first && SameGeometry(layers[first], layers[l])) {
        layers[l].geometry = first;
        break;
      }
    }
  }
}

template <class T, class Get>
bool AllEqual(std::span<const T> values, Get get) {
  return std::all_of(values.begin(), values.end(), [&](const T& value) { return get(value) == get(values[0]); });
}

// The calibration of all quantised sources, or null.
const KeyQuant* OneCalibration(std::span<const KvSource> sources) {
  const KeyQuant* one = nullptr;
  for (const KvSource& source : sources) {
    if (!IsQuantised(source.encoding)) continue;
    if (one != nullptr && one != source.calibration) return nullptr;
    one = source.calibration;
  }
  return one;
}

bool HasNulls(const KvBatch& batch) {
  for (const KvRequest& request : batch.requests) {
    for (const auto& table : request.tables) {
      for (const int32_t entry : table) {
        if (entry < 0 || entry == batch.null_block) return true;
      }
    }
  }
  return false;
}

template <class T>
T* Moved(const T* pointer, const uint8_t* from, uint8_t* to) {
  return reinterpret_cast<T*>(to + (reinterpret_cast<const uint8_t*>(pointer) - from));
}

}  // namespace

KvPlanView KvPlan::View(uint8_t* base) const {
  KvPlanView view = host_;
  view.sources = Moved(host_.sources, base_, base);
  view.spans = Moved(host_.spans, base_, base);
  view.tiles = Moved(host_.tiles, base_, base);
  view.layers = Moved(host_.layers, base_, base);
  view.ropes = Moved(host_.ropes, base_, base);
  view.table_first = Moved(host_.table_first, base_, base);
  view.blocks = Moved(host_.blocks, base_, base);
  view.status = Moved(host_.status, base_, base);
  return view;
}

size_t KvPlanBytes(const KvBatch& batch) {
  const Counts counts = Count(batch);
  return Aligned(batch.sources.size_bytes()) + Aligned(counts.spans * sizeof(KvPlanSpan)) +
         Aligned(Tiles(counts.tokens) * sizeof(KvPlanTile)) + Aligned(batch.layers.size_bytes()) +
         Aligned(batch.ropes.size_bytes()) + Aligned(batch.requests.size() * batch.groups * sizeof(uint32_t)) +
         Aligned(counts.blocks * sizeof(int32_t)) + Aligned(batch.sources.size() * sizeof(uint32_t));
}

Result<KvPlan> BuildKvPlan(const KvBatch& batch, KvDirection direction, std::span<uint8_t> out) {
  TRY(CheckKvBatch(batch, direction));
  const size_t bytes = KvPlanBytes(batch);
  if (out.size() < bytes || reinterpret_cast<uintptr_t>(out.data()) % kAlign != 0) {
    return Fail(ErrorCode::kInvalidArgument, "a plan of " + std::to_string(bytes) + " bytes does not fit " +
                                                 std::to_string(out.size()) + " bytes, or they are not aligned");
  }
  const Counts counts = Count(batch);
  Writer writer(out.data());
  KvPlanView view;
  view.sources = writer.Copy(batch.sources);
  auto* spans = writer.Take<KvPlanSpan>(counts.spans);
  auto* tiles = writer.Take<KvPlanTile>(Tiles(counts.tokens));
  CacheLayer* layers = writer.Copy(batch.layers);
  view.layers = layers;
  view.ropes = writer.Copy(batch.ropes);
  auto* table_first = writer.Take<uint32_t>(batch.requests.size() * batch.groups);
  auto* blocks = writer.Take<int32_t>(counts.blocks);
  view.status = writer.Take<uint32_t>(batch.sources.size());
  INFERSCALE_ASSERT(writer.used() == bytes);
  std::fill_n(view.status, batch.sources.size(), 0u);
  NumberGeometries(layers, static_cast<uint32_t>(batch.layers.size()));
  WriteTables(batch, table_first, blocks);
  view.span_count = WriteSpans(batch, spans);
  WriteTiles({spans, view.span_count}, tiles);
  view.spans = spans;
  view.tiles = tiles;
  view.table_first = table_first;
  view.blocks = blocks;
  view.shape = batch.shape;
  view.source_count = static_cast<uint32_t>(batch.sources.size());
  view.token_count = static_cast<uint32_t>(counts.tokens);
  view.layer_count = static_cast<uint32_t>(batch.layers.size());
  view.groups = batch.groups;
  view.null_block = batch.null_block;
  view.vectors = MovesInVectors(batch, direction);
  view.has_nulls = HasNulls(batch);
  view.calibration = OneCalibration(batch.sources);
  view.one_encoding = AllEqual(batch.sources, [](const KvSource& source) { return source.encoding; });
  view.one_type = AllEqual(batch.layers, [](const CacheLayer& layer) { return layer.type; });
  view.quantised = std::any_of(batch.sources.begin(), batch.sources.end(),
                               [](const KvSource& source) { return IsQuantised(source.encoding); });
  if (!batch.sources.empty()) view.encoding = batch.sources[0].encoding;
  if (!batch.layers.empty()) view.type = batch.layers[0].type;
  return KvPlan(view, out.data(), bytes);
}

}  // namespace inferscale::kernels
