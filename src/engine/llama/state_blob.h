// llama.cpp's sequence state, as bytes: parsed, and forged from KV records at their final positions.
//
// The layout is llama.cpp v0.5.0's and is promised to nobody, so it is never stored: it is probed at start
// (ProbeLayout) and the self-test injects through it before anything else does.
//
//   u32 magic 0xaf143cd8, i32 sequence
//   per part (sliding-window models have two caches: full attention, then windowed):
//     u32 streams (1), u32 cells, cells x { i32 position, u32 1, i32 sequence }
//     u32 v_transposed, u32 layers
//     per layer: i32 ggml type, u64 row bytes, cells x [kv_heads * key_dim] rotated keys
//     per layer, values as rows:  i32 type, u64 row bytes, cells x [kv_heads * value_dim]
//     or transposed:              i32 type, u32 element bytes, u32 rows, [kv_heads * value_dim] x cells
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/error.h"
#include "base/thread_pool.h"
#include "core/kv_record.h"
#include "core/rope.h"

namespace inferscale {

// One cache of the context: which of the model's layers it holds, and how far back they look.
struct StatePart {
  std::vector<uint32_t> layers;  // ascending
  uint32_t window = 0;           // tokens a layer attends to, its own included; 0: all
};

struct StateLayout {
  KvShape shape;
  bool v_transposed = false;
  std::vector<StatePart> parts;
};

// The engine's own bytes for cells at fixed positions, kept to be put back exactly (headers, stems).
struct StateCells {
  struct Part {
    std::vector<int32_t> positions;  // [cells]
    std::vector<size_t> keys;        // [layers of the part] byte offset of its rows
    std::vector<size_t> values;      // [layers of the part]
    bool v_transposed = false;
    uint32_t layers = 0;
  };
  std::vector<uint8_t> bytes;  // the blob
  std::vector<Part> parts;
};

// Reads a blob's structure; f16 keys and values of `shape` only. kMismatch: not what this file describes.
Result<StateCells> ParseState(std::vector<uint8_t> bytes, const KvShape& shape);

// Learns which model layers each part holds by comparing a blob's keys with the same tokens' records, rotated to
// positions 0, 1, …; window: the model's sliding window (0: none). kMismatch when they do not agree.
Result<StateLayout> ProbeLayout(const StateCells& cells, const KvPayload& record, const RopeTable& rope,
                                const RopeSpec& spec, uint32_t window);

// One record and the position of its first token.
struct PlacedRecord {
  const KvPayload* payload = nullptr;
  uint32_t position = 0;
};

// Memory for blobs: reserved once for the largest, touched as it is first used. Fresh pages would cost 15 to 20 ms per
// 30 MB injection.
class StateBuffer {
 public:
  StateBuffer(size_t capacity, size_t touched_at_once);
  ~StateBuffer();
  StateBuffer(const StateBuffer&) = delete;
  StateBuffer& operator=(const StateBuffer&) = delete;
  uint8_t* data() { return data_; }
  size_t capacity() const { return capacity_; }
  void Wipe();  // gives what was written back to the system, and touches as at the start

 private:
  uint8_t* data_ = nullptr;
  size_t capacity_ = 0;
  size_t touched_ = 0;
};

size_t StateBytesMax(const StateLayout& layout, uint32_t tokens);

// Writes the blob of [prefix cells at their positions, records at theirs] into out and returns its size. Records follow
// each other up to position `end`; cells that a windowed part can no longer see from `end` on are left out.
// rope == nullptr: keys are copied unrotated (the self-test's negative control).
Result<size_t> ForgeState(const StateLayout& layout, const RopeSpec& spec, const RopeTable* rope,
                          const StateCells* prefix, std::span<const PlacedRecord> records, uint32_t end,
                          StateBuffer& out, ThreadPool& pool);

}  // namespace inferscale
