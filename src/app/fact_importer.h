// Facts and turns of a file into a namespace: in batches, each one transaction, so that a broken import goes on where
// it ended when it is run again: what is there already is a duplicate and changes nothing.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "app/fact_lines.h"
#include "base/error.h"
#include "memory/memory.h"

namespace inferscale {

struct ImportCounts {
  size_t done = 0;  // lines dealt with: what became of them is durable
  size_t total = 0;
  size_t added = 0;
  size_t duplicates = 0;
  size_t changed = 0;            // turns whose id was there with other words
  size_t expired = 0;            // left out
  size_t replaced = 0;           // left out: superseded by a fact that is not there any more
  std::vector<size_t> id_taken;  // lines that were not stored: another fact has their id
};

class FactImporter {
 public:
  // acknowledged: ids of the facts that the last batch made durable, those that were there already included.
  using OnBatch = std::function<void(const ImportCounts& counts, std::span<const std::string> acknowledged)>;

  // name: of the file, for errors, which name a line too. All outlive the importer.
  FactImporter(Memory& memory, std::string_view name_space, std::string_view name, OnBatch on_batch)
      : memory_(memory), name_space_(name_space), name_(name), on_batch_(std::move(on_batch)) {}

  // Errors: those of Memory::Remember and Supersede; the batches before are stored.
  Result<ImportCounts> Facts(std::vector<FactLine> lines);
  // Errors: those of Memory::PutTurns.
  Result<ImportCounts> Turns(const std::vector<TurnLine>& lines);

 private:
  struct Fate {
    bool known = false, out = false;  // out: expired, or replaced by what is out or gone
  };
  Status DecideFates(const std::vector<FactLine>& lines);
  Result<bool> IsOut(const std::vector<FactLine>& lines, size_t start);
  Status AddBatch(std::vector<FactLine*> batch);
  Status Send(std::span<FactLine* const> batch);
  Status Supersede(const std::vector<FactLine>& lines);
  // A "supersedes" as the memory knows it.
  std::vector<std::string> Resolve(const std::vector<std::string>& ids) const;

  Memory& memory_;
  std::string_view name_space_, name_;
  OnBatch on_batch_;
  ImportCounts counts_;
  std::vector<std::string> acknowledged_;
  std::unordered_map<std::string_view, size_t> line_of_;    // given id -> index of its line
  std::unordered_map<std::string, std::string> stored_as_;  // given id -> id of the duplicate that is there
  std::vector<Fate> fates_;                                 // [lines]
};

}  // namespace inferscale
