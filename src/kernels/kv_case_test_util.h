// Test vectors of the inject and extract kernels, the same for the CPU and for CUDA: a cache of some layout, records,
// rope tables and requests in one piece of memory that can be copied to a device as it is, and an oracle in double
// precision that knows the layouts from their definition, not from the plan.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/kv_plan.h"
#include "kernels/kv_plan_builder.h"

namespace inferscale::kernels {

struct KvCaseSpec {
  // Order of the cache's dimensions, outermost first, without the innermost D: L layer, B block, K keys and values,
  // N token in block, H head. "LKBNH" is kv-first, "LBKNH" blocks-first, "LBNHK" packed NHD, "LBHNK" packed HND.
  std::string order = "LBNHK";
  CacheType type = CacheType::kBf16;
  std::vector<PayloadEncoding> encodings = {PayloadEncoding::kBf16};  // record i has encodings[i % size]
  TableType table = TableType::kF32;
  Pairing pairing = Pairing::kNeoxHalves;
  uint32_t rotary_dims = 0;  // 0: no layer rotates
  uint32_t heads = 2, layers = 3, key_dim = 64, value_dim = 64;
  uint32_t block_size = 16, blocks_per_entry = 1;
  uint32_t start = 0;         // first position of every request
  uint32_t source_first = 0;  // tokens of each record that are left out at its front, and one at its end if > 0
  uint32_t requests = 2, facts = 4, fact_tokens = 11;
  uint32_t pad = 0;          // elements between rows of D
  uint32_t shift = 0;        // elements by which the cache misses its alignment
  bool hybrid = false;       // odd layers: another group, other block size, the first blocks null, another rope table
  bool some_layers = false;  // the cache lacks every third layer, and the last has no rope
  uint32_t seed = 1;

  std::string Name() const;
};

class KvCase {
 public:
  KvCase(KvCaseSpec spec, KvDirection direction);

  // Everything that pointers of the batch point to.
  const std::vector<uint8_t>& memory() const { return memory_; }
  // The batch for memory that lies at `base`. Valid until the next call.
  const KvBatch& Batch(uint8_t* base);
  // Replaces the stamp of a record in memory (every record has one when injecting).
  void BreakStamp(uint32_t source);

  // Empty, or the first few differences between `after` (memory as the kernel left it) and the oracle: expected
  // elements within the rounding of their type, every other byte as it was.
  std::string CheckInjected(const std::vector<uint8_t>& after) const;
  std::string CheckExtracted(const std::vector<uint8_t>& after, const std::vector<uint32_t>& status) const;

  const KvCaseSpec& spec() const { return spec_; }

 private:
  struct Record {
    PayloadLayout layout;
    size_t payload = 0, stamp = 0;  // offsets into memory_
    RecordStamp expected;
  };
  // One row: of a record, and of the cache.
  struct Place {
    const Record* record = nullptr;
    uint32_t source = 0, token = 0, position = 0, head = 0;
    const CacheLayer* layer = nullptr;
    size_t cell = 0;  // offset of the row without key_offset or value_offset
  };
  // An exact number, and how far f32 arithmetic may be from it before the last rounding.
  struct Expected {
    double value = 0, slack = 0;
  };
  using Row = std::vector<Expected>;

  size_t Take(size_t bytes, size_t align);
  void MakeCache();
  void MakeRopes();
  void MakeRecords();
  void MakeRequests();
  void FillRecord(const Record& record);
  void FillCache();
  // Every row that the batch moves.
  void ForEachPlace(const std::function<void(const Place&)>& visit) const;
  Row RecordRow(const std::vector<uint8_t>& memory, const Place& place, bool key) const;
  Row CacheRow(const std::vector<uint8_t>& memory, const Place& place, bool key) const;
  void Rotate(const Place& place, bool inverse, Row& row) const;
  double Table(const RopeRows& rope, uint32_t position, uint32_t i) const;
  KeyQuant Channel(uint32_t layer, uint32_t head, uint32_t d) const;
  double Step(const std::vector<uint8_t>& after, const Place& place, bool key, uint32_t d, double value) const;

  KvCaseSpec spec_;
  std::vector<uint8_t> memory_;
  std::vector<CacheLayer> layers_;  // with offsets for pointers, as in the next two
  std::vector<size_t> layer_base_;
  std::vector<RopeRows> ropes_;
  std::vector<size_t> rope_base_;
  std::vector<Record> records_;
  size_t calibration_ = 0;
  std::vector<std::vector<KvSpan>> spans_;                 // [requests]
  std::vector<std::vector<std::vector<int32_t>>> tables_;  // [requests][groups]
  uint32_t groups_ = 1;

  // What Batch() returns points to these.
  KvBatch batch_;
  std::vector<KvSource> batch_sources_;
  std::vector<KvRequest> batch_requests_;
  std::vector<std::vector<std::span<const int32_t>>> batch_tables_;
  std::vector<CacheLayer> batch_layers_;
  std::vector<RopeRows> batch_ropes_;
};

// The grid of the contract: layout x type x encoding x rope variant x block size x start, trimmed to `limit` cases by a
// fixed shuffle (0: all), then `fuzzed` random ones.
std::vector<KvCaseSpec> KvCaseGrid(size_t limit, size_t fuzzed);

}  // namespace inferscale::kernels
