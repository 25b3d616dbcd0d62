// A namespace of the durable memory as the main path's source.
#pragma once

#include <string>

#include "engine/engine.h"
#include "memory/fact_source.h"
#include "memory/memory.h"

namespace inferscale {

class MemorySource : public FactSource {
 public:
  // Both outlive the source.
  MemorySource(Memory& memory, const Engine& engine, std::string name_space)
      : memory_(memory), engine_(engine), name_space_(std::move(name_space)) {}

  Result<std::vector<RecalledFact>> Recall(std::string_view question, size_t top_k) override;
  // Facts that have no record are put at the front of the encode queue: somebody needs them.
  Result<std::vector<RecordHandle>> Load(std::span<const RecalledFact> facts) override;
  Result<std::vector<bool>> HasRecords(std::span<const RecalledFact> facts) override;

 private:
  Memory& memory_;
  const Engine& engine_;
  std::string name_space_;
};

}  // namespace inferscale
