// Runs a test vector of the inject and extract kernels on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kv_case_test_util.h"

namespace inferscale::kernels {

// A case's memory after the run, and the records' status words.
struct KvOutcome {
  std::vector<uint8_t> memory;
  std::vector<uint32_t> status;
};

// memory: what the batch points to. A plan that is refused fails the test.
KvOutcome RunOnCpu(const KvBatch& batch, KvDirection direction, std::vector<uint8_t> memory);
KvOutcome RunOnCpu(KvCase& test, KvDirection direction);

}  // namespace inferscale::kernels
