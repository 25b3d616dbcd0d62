#include "engine/llama/state_blob.h"

#include <ggml.h>
#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/assert.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/rotate.h"
#include "kernels/cpu/transpose.h"

namespace inferscale {

namespace {

constexpr uint32_t kMagic = 0xaf143cd8u;
constexpr size_t kCellBytes = 12;       // position, count, sequence
constexpr size_t kLayerHeadBytes = 12;  // type and row size, in either form
constexpr size_t kPartHeadBytes = 8;    // streams, cells
constexpr size_t kPartMidBytes = 8;     // v_transposed, layers

// Bounds-checked little-endian reads.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : bytes_(bytes) {}
  size_t at() const { return at_; }
  bool Done() const { return at_ == bytes_.size(); }
  template <class T>
  bool Read(T& value) {
    if (bytes_.size() - at_ < sizeof value) return false;
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return true;
  }
  bool Skip(size_t n) {
    if (bytes_.size() - at_ < n) return false;
    at_ += n;
    return true;
  }

 private:
  std::span<const uint8_t> bytes_;
  size_t at_ = 0;
};

template <class T>
uint8_t* Put(uint8_t* at, T value) {
  std::memcpy(at, &value, sizeof value);
  return at + sizeof value;
}

bool ParsePart(Reader& in, const KvShape& shape, StateCells::Part& part) {
  uint32_t streams, cells, v_transposed;
  if (!in.Read(streams) || streams != 1 || !in.Read(cells)) return false;
  if (cells == 0) return true;
  for (uint32_t i = 0; i < cells; ++i) {
    int32_t position, sequence;
    uint32_t count;
    if (!in.Read(position) || !in.Read(count) || !in.Read(sequence) || count != 1) return false;
    part.positions.push_back(position);
  }
  if (!in.Read(v_transposed) || !in.Read(part.layers)) return false;
  part.v_transposed = v_transposed != 0;
  const uint64_t key_row = uint64_t{shape.kv_heads} * shape.key_dim * 2;
  const uint64_t value_row = uint64_t{shape.kv_heads} * shape.value_dim * 2;
  for (uint32_t i = 0; i < part.layers; ++i) {
    int32_t type;
    uint64_t row;
    if (!in.Read(type) || type != GGML_TYPE_F16 || !in.Read(row) || row != key_row) return false;
    part.keys.push_back(in.at());
    if (!in.Skip(cells * key_row)) return false;
  }
  for (uint32_t i = 0; i < part.layers; ++i) {
    int32_t type;
    if (!in.Read(type) || type != GGML_TYPE_F16) return false;
    if (part.v_transposed) {
      uint32_t element, rows;
      if (!in.Read(element) || element != 2 || !in.Read(rows) || rows * uint64_t{2} != value_row) return false;
    } else {
      uint64_t row;
      if (!in.Read(row) || row != value_row) return false;
    }
    part.values.push_back(in.at());
    if (!in.Skip(cells * value_row)) return false;
  }
  return true;
}

}  // namespace

Result<StateCells> ParseState(std::vector<uint8_t> bytes, const KvShape& shape) {
  const auto unexpected = [] {
    return Fail(ErrorCode::kMismatch, "llama.cpp's sequence state does not have the layout this version was built for");
  };
  StateCells cells;
  cells.bytes = std::move(bytes);
  Reader in(cells.bytes);
  uint32_t magic;
  int32_t sequence;
  if (!in.Read(magic) || magic != kMagic || !in.Read(sequence)) return unexpected();
  while (!in.Done()) {
    if (cells.parts.size() == 2) return unexpected();
    if (!ParsePart(in, shape, cells.parts.emplace_back())) return unexpected();
  }
  if (cells.parts.empty()) return unexpected();
  return cells;
}

namespace {

// Largest |difference| between a part layer's key rows and a record's keys of model layer `layer`, rotated.
float KeyDistance(const uint8_t* rows, const KvPayload& record, const RopeTable& rope, const RopeSpec& spec,
                  uint32_t layer, std::vector<uint16_t>& scratch) {
  const KvShape& shape = record.shape();
  const size_t row = size_t{shape.kv_heads} * shape.key_dim;
  scratch.resize(row * record.tokens());
  const RopeVariant& variant = spec.variants[spec.layer_variant[layer]];
  for (uint32_t head = 0; head < shape.kv_heads; ++head) {
    kernels::RotateF16({.src = record.Key(head, layer),
                        .src_stride = shape.key_dim,
                        .dst = scratch.data() + head * shape.key_dim,
                        .dst_stride = row,
                        .table = rope.Row(spec.layer_variant[layer], 0),
                        .table_stride = rope.RowStride(spec.layer_variant[layer]),
                        .tokens = record.tokens(),
                        .head_dim = shape.key_dim,
                        .rotary_dims = variant.pairing == RopePairing::kNone ? 0 : variant.rotary_dims,
                        .interleaved = variant.pairing == RopePairing::kInterleaved});
  }
  float worst = 0;
  for (size_t i = 0; i < scratch.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, rows + 2 * i, sizeof bits);
    const float engine = kernels::F16ToF32Scalar(bits), ours = kernels::F16ToF32Scalar(scratch[i]);
    // One rounding of the stored key and one of the result: 2^-11 each, so 2^-9 leaves room for the angle's own error.
    const float tolerance = std::ldexp(1.0f, -9) * (std::fabs(engine) + 1.0f);
    worst = std::max(worst, std::fabs(engine - ours) / tolerance);
  }
  return worst;  // <= 1: equal
}

}  // namespace

Result<StateLayout> ProbeLayout(const StateCells& cells, const KvPayload& record, const RopeTable& rope,
                                const RopeSpec& spec, uint32_t window) {
  StateLayout layout{record.shape(), cells.parts[0].v_transposed, {}};
  std::vector<bool> taken(layout.shape.layers, false);
  std::vector<uint16_t> scratch;
  for (size_t p = 0; p < cells.parts.size(); ++p) {
    const StateCells::Part& part = cells.parts[p];
    if (part.positions.size() != record.tokens() || part.v_transposed != layout.v_transposed)
      return Fail(ErrorCode::kMismatch, "llama.cpp's caches hold other cells than were decoded");
    StatePart& out = layout.parts.emplace_back();
    out.window = cells.parts.size() == 2 && p == 1 ? window : 0;
    uint32_t layer = 0;
    for (const size_t rows : part.keys) {  // a part's layers ascend, so the search goes on where it stopped
      while (layer < layout.shape.layers &&
             (taken[layer] || KeyDistance(cells.bytes.data() + rows, record, rope, spec, layer, scratch) > 1.0f))
        ++layer;
      if (layer == layout.shape.layers)
        return Fail(ErrorCode::kMismatch, "our rotation does not reproduce the engine's keys");
      taken[layer] = true;
      out.layers.push_back(layer);
    }
  }
  if (std::count(taken.begin(), taken.end(), true) != static_cast<std::ptrdiff_t>(layout.shape.layers))
    return Fail(ErrorCode::kMismatch, "llama.cpp's state holds fewer layers than the model");
  return layout;
}

StateBuffer::StateBuffer(size_t capacity, size_t touched_at_once)
    : capacity_(capacity), touched_(std::min(capacity, touched_at_once)) {
  void* p = ::mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  INFERSCALE_ASSERT(p != MAP_FAILED);
  data_ = static_cast<uint8_t*>(p);
  ::madvise(data_, capacity, MADV_HUGEPAGE);
  std::memset(data_, 0, touched_);
}

void StateBuffer::Wipe() {
  ::madvise(data_, capacity_, MADV_DONTNEED);  // private pages read as zeros from then on
  std::memset(data_, 0, touched_);
}

StateBuffer::~StateBuffer() { ::munmap(data_, capacity_); }

size_t StateBytesMax(const StateLayout& layout, uint32_t tokens) {
  size_t bytes = 8;
  for (const StatePart& part : layout.parts) {
    const size_t row = size_t{layout.shape.kv_heads} * (layout.shape.key_dim + layout.shape.value_dim) * 2;
    bytes += kPartHeadBytes + tokens * kCellBytes + kPartMidBytes +
             part.layers.size() * (2 * kLayerHeadBytes + tokens * row);
  }
  return bytes;
}

namespace {

// The tokens of one source (prefix or record) that a part takes: [skip, skip + count) of it, at cells [cell, …).
struct Slice {
  const KvPayload* payload = nullptr;  // nullptr: the prefix
  uint32_t skip = 0, count = 0, cell = 0, position = 0;
};

// Where one part's layers lie in the blob being forged.
struct PartPlan {
  const StatePart* part = nullptr;
  const StateCells::Part* prefix = nullptr;
  std::vector<Slice> slices;
  uint32_t cells = 0;
  uint8_t* keys = nullptr;  // first layer's head
  uint8_t* values = nullptr;
};

class Forge {
 public:
  Forge(const StateLayout& layout, const RopeSpec& spec, const RopeTable* rope, const StateCells* prefix)
      : layout_(layout),
        spec_(spec),
        rope_(rope),
        prefix_(prefix),
        key_row_(size_t{layout.shape.kv_heads} * layout.shape.key_dim),
        value_row_(size_t{layout.shape.kv_heads} * layout.shape.value_dim) {}

  // Heads and cell lists of every part; layers are filled by WriteLayer.
  size_t WriteHeads(std::span<const PlacedRecord> records, uint32_t end, uint8_t* out) {
    uint8_t* at = Put(Put(out, kMagic), int32_t{0});
    for (size_t p = 0; p < layout_.parts.size(); ++p) {
      PartPlan plan = PlanPart(p, records, end);
      at = Put(Put(at, uint32_t{1}), plan.cells);
      for (const Slice& slice : plan.slices) {
        for (uint32_t i = 0; i < slice.count; ++i) {
          const int32_t position = slice.payload ? static_cast<int32_t>(slice.position + slice.skip + i)
                                                 : plan.prefix->positions[slice.skip + i];
          at = Put(Put(Put(at, position), uint32_t{1}), int32_t{0});
        }
      }
      at = Put(Put(at, uint32_t{layout_.v_transposed}), static_cast<uint32_t>(plan.part->layers.size()));
      plan.keys = at;
      at += plan.part->layers.size() * (kLayerHeadBytes + plan.cells * key_row_ * 2);
      plan.values = at;
      at += plan.part->layers.size() * (kLayerHeadBytes + plan.cells * value_row_ * 2);
      for (size_t i = 0; i < plan.part->layers.size(); ++i) work_.emplace_back(p, i);
      plans_.push_back(std::move(plan));
    }
    return static_cast<size_t>(at - out);
  }

  size_t layers() const { return work_.size(); }
  void WriteLayer(size_t index) const {
    const auto [p, i] = work_[index];
    WriteKeys(plans_[p], i);
    WriteValues(plans_[p], i);
  }

 private:
  PartPlan PlanPart(size_t p, std::span<const PlacedRecord> records, uint32_t end) const {
    PartPlan plan;
    plan.part = &layout_.parts[p];
    // The next token stands at `end` and sees positions above end - window.
    const uint32_t window = plan.part->window;
    const uint32_t first = window != 0 && end > window ? end - window : 0;
    if (prefix_ != nullptr) {
      plan.prefix = &prefix_->parts[p];
      const auto& positions = plan.prefix->positions;
      const auto from = std::lower_bound(positions.begin(), positions.end(), static_cast<int32_t>(first));
      AddSlice(plan, {nullptr, static_cast<uint32_t>(from - positions.begin()),
                      static_cast<uint32_t>(positions.end() - from), 0, 0});
    }
    for (const PlacedRecord& record : records) {
      const uint32_t skip = first > record.position ? std::min(first - record.position, record.payload->tokens()) : 0;
      AddSlice(plan, {record.payload, skip, record.payload->tokens() - skip, 0, record.position});
    }
    return plan;
  }

  static void AddSlice(PartPlan& plan, Slice slice) {
    if (slice.count == 0) return;
    slice.cell = plan.cells;
    plan.cells += slice.count;
    plan.slices.push_back(slice);
  }

  void WriteKeys(const PartPlan& plan, size_t i) const {
    const KvShape& shape = layout_.shape;
    const uint32_t layer = plan.part->layers[i];
    uint8_t* at = plan.keys + i * (kLayerHeadBytes + plan.cells * key_row_ * 2);
    at = Put(Put(at, int32_t{GGML_TYPE_F16}), uint64_t{key_row_ * 2});
    auto* rows = reinterpret_cast<uint16_t*>(at);
    const size_t v = spec_.layer_variant[layer];
    const RopeVariant& variant = spec_.variants[v];
    const bool rotates = rope_ != nullptr && variant.pairing != RopePairing::kNone;
    for (const Slice& s : plan.slices) {
      if (s.payload == nullptr) {
        std::memcpy(at + s.cell * key_row_ * 2, prefix_->bytes.data() + plan.prefix->keys[i] + s.skip * key_row_ * 2,
                    s.count * key_row_ * 2);
        continue;
      }
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        kernels::RotateF16({.src = s.payload->Key(head, layer) + s.skip * shape.key_dim,
                            .src_stride = shape.key_dim,
                            .dst = rows + s.cell * key_row_ + head * shape.key_dim,
                            .dst_stride = key_row_,
                            .table = rotates ? rope_->Row(v, s.position + s.skip) : nullptr,
                            .table_stride = rotates ? rope_->RowStride(v) : 0,
                            .tokens = s.count,
                            .head_dim = shape.key_dim,
                            .rotary_dims = rotates ? variant.rotary_dims : 0,
                            .interleaved = variant.pairing == RopePairing::kInterleaved});
      }
    }
  }

  void WriteValues(const PartPlan& plan, size_t i) const {
    const KvShape& shape = layout_.shape;
    const uint32_t layer = plan.part->layers[i];
    uint8_t* at = plan.values + i * (kLayerHeadBytes + plan.cells * value_row_ * 2);
    at = Put(at, int32_t{GGML_TYPE_F16});
    at = layout_.v_transposed ? Put(Put(at, uint32_t{2}), static_cast<uint32_t>(value_row_))
                              : Put(at, uint64_t{value_row_ * 2});
    auto* out = reinterpret_cast<uint16_t*>(at);
    for (const Slice& s : plan.slices) {
      if (s.payload == nullptr) {
        WritePrefixValues(plan, i, s, out);
        continue;
      }
      for (uint32_t head = 0; head < shape.kv_heads; ++head) {
        const uint16_t* src = s.payload->Value(head, layer) + s.skip * shape.value_dim;
        if (layout_.v_transposed) {
          kernels::TransposeU16(src, shape.value_dim, out + head * shape.value_dim * plan.cells + s.cell, plan.cells,
                                s.count, shape.value_dim);
        } else {
          for (uint32_t t = 0; t < s.count; ++t)
            std::memcpy(out + (s.cell + t) * value_row_ + head * shape.value_dim, src + t * shape.value_dim,
                        shape.value_dim * 2);
        }
      }
    }
  }

  void WritePrefixValues(const PartPlan& plan, size_t i, const Slice& s, uint16_t* out) const {
    const uint8_t* src = prefix_->bytes.data() + plan.prefix->values[i];
    if (!layout_.v_transposed) {
      std::memcpy(out + s.cell * value_row_, src + s.skip * value_row_ * 2, s.count * value_row_ * 2);
      return;
    }
    const size_t held = plan.prefix->positions.size();
    for (size_t row = 0; row < value_row_; ++row)
      std::memcpy(out + row * plan.cells + s.cell, src + (row * held + s.skip) * 2, s.count * 2);
  }

  const StateLayout& layout_;
  const RopeSpec& spec_;
  const RopeTable* rope_;
  const StateCells* prefix_;
  const size_t key_row_, value_row_;  // elements
  std::vector<PartPlan> plans_;
  std::vector<std::pair<size_t, size_t>> work_;  // (part, layer of the part)
};

}  // namespace

Result<size_t> ForgeState(const StateLayout& layout, const RopeSpec& spec, const RopeTable* rope,
                          const StateCells* prefix, std::span<const PlacedRecord> records, uint32_t end,
                          StateBuffer& out, ThreadPool& pool) {
  INFERSCALE_ASSERT(prefix == nullptr || prefix->parts.size() == layout.parts.size());
  uint32_t tokens = prefix == nullptr ? 0 : static_cast<uint32_t>(prefix->parts[0].positions.size());
  for (const PlacedRecord& record : records) {
    INFERSCALE_ASSERT(record.payload->shape() == layout.shape);
    INFERSCALE_ASSERT(rope == nullptr || record.position + record.payload->tokens() <= rope->positions());
    tokens += record.payload->tokens();
  }
  if (StateBytesMax(layout, tokens) > out.capacity())
    return Fail(ErrorCode::kPromptTooLong, std::to_string(tokens) + " tokens of KV do not fit this context");
  Forge forge(layout, spec, rope, prefix);
  const size_t size = forge.WriteHeads(records, end, out.data());
  pool.ParallelFor(forge.layers(), [&](size_t begin, size_t last) {
    for (size_t i = begin; i < last; ++i) forge.WriteLayer(i);
  });
  return size;
}

}  // namespace inferscale
