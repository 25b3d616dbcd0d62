// The grid of test vectors and the random ones (kv_case_test_util.h).
#include <algorithm>
#include <random>

#include "kernels/kv_case_test_util.h"

namespace inferscale::kernels {
namespace {

using Encodings = std::vector<PayloadEncoding>;

const std::vector<std::string> kOrders = {"LKBNH", "LBKNH", "LBNHK", "LBHNK", "LHBNK", "BLHNK", "BLNHK", "BHLNK"};
const std::vector<CacheType> kTypes = {CacheType::kBf16, CacheType::kF16, CacheType::kFp8E4m3};
const std::vector<Encodings> kEncodings = {
    {PayloadEncoding::kBf16},
    {PayloadEncoding::kF16},
    {PayloadEncoding::kInt8},
    {PayloadEncoding::kInt4},
    {PayloadEncoding::kInt8, PayloadEncoding::kF16, PayloadEncoding::kInt4, PayloadEncoding::kBf16}};

struct Rope {
  Pairing pairing;
  uint32_t dims;
  TableType table;
};
const std::vector<Rope> kRopes = {
    {Pairing::kNeoxHalves, 64, TableType::kF32},  {Pairing::kNeoxHalves, 64, TableType::kBf16},
    {Pairing::kNeoxHalves, 32, TableType::kF32},  // partial
    {Pairing::kInterleaved, 64, TableType::kF32}, {Pairing::kInterleaved, 64, TableType::kBf16},
    {Pairing::kInterleaved, 24, TableType::kF32},  // partial
    {Pairing::kNeoxHalves, 0, TableType::kF32}};

struct Blocks {
  uint32_t size, per_entry, start, source_first;
};
const std::vector<Blocks> kBlocks = {{16, 1, 0, 0}, {16, 4, 5, 0}, {32, 1, 37, 2}, {64, 2, 64, 1}, {256, 1, 255, 0}};

template <class T>
const T& Pick(const std::vector<T>& values, std::mt19937& random) {
  return values[random() % values.size()];
}

// What the grid leaves out: other shapes, odd sizes, alignment that the vector kernels cannot use.
KvCaseSpec Fuzzed(uint32_t seed) {
  std::mt19937 random(seed);
  KvCaseSpec spec;
  spec.seed = seed;
  spec.order = Pick(kOrders, random);
  spec.type = Pick(kTypes, random);
  spec.encodings = Pick(kEncodings, random);
  spec.table = random() % 2 ? TableType::kF32 : TableType::kBf16;
  spec.pairing = random() % 2 ? Pairing::kNeoxHalves : Pairing::kInterleaved;
  spec.heads = 1 + random() % 5;
  spec.layers = 1 + random() % 7;
  spec.key_dim = Pick<uint32_t>({16, 32, 80, 96, 128, 192, 256, 22, 6, 100, 512}, random);
  spec.value_dim = random() % 3 ? spec.key_dim : Pick<uint32_t>({16, 64, 128, 10}, random);
  spec.rotary_dims = random() % 4 ? spec.key_dim : 2 * (random() % (spec.key_dim / 2 + 1));
  spec.block_size = Pick<uint32_t>({1, 3, 16, 48, 64, 128}, random);
  spec.blocks_per_entry = 1 + random() % 3;
  spec.start = random() % 200;
  spec.source_first = random() % 4;
  spec.requests = 1 + random() % 4;
  spec.facts = 1 + random() % 6;
  spec.fact_tokens = 1 + random() % 40;
  spec.pad = random() % 3 == 0 ? random() % 20 : 0;
  spec.shift = random() % 4 == 0 ? random() % 8 : 0;
  spec.hybrid = random() % 3 == 0;
  spec.some_layers = random() % 3 == 0;
  return spec;
}

}  // namespace

std::vector<KvCaseSpec> KvCaseGrid(size_t limit, size_t fuzzed) {
  std::vector<KvCaseSpec> grid;
  for (const std::string& order : kOrders) {
    for (const CacheType type : kTypes) {
      for (const Encodings& encodings : kEncodings) {
        for (const Rope& rope : kRopes) {
          for (const Blocks& blocks : kBlocks) {
            KvCaseSpec spec;
            spec.order = order, spec.type = type, spec.encodings = encodings;
            spec.table = rope.table, spec.pairing = rope.pairing, spec.rotary_dims = rope.dims;
            spec.block_size = blocks.size, spec.blocks_per_entry = blocks.per_entry;
            spec.start = blocks.start, spec.source_first = blocks.source_first;
            spec.seed = static_cast<uint32_t>(grid.size());
            spec.hybrid = grid.size() % 3 == 0;
            spec.some_layers = grid.size() % 5 == 0;
            grid.push_back(spec);
          }
        }
      }
    }
  }
  if (limit > 0 && limit < grid.size()) {
    std::mt19937 random(1);
    std::shuffle(grid.begin(), grid.end(), random);
    grid.resize(limit);
  }
  for (uint32_t i = 0; i < fuzzed; ++i) grid.push_back(Fuzzed(1000 + i));
  return grid;
}

}  // namespace inferscale::kernels
