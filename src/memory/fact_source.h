// What the main path needs of a memory, wherever its facts are: a file (memory/file_source.h) or a namespace of the
// durable memory (memory/memory_source.h).
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "core/kv_record.h"
#include "core/types.h"

namespace inferscale {

// A fact found for a question.
struct RecalledFact {
  uint64_t key = 0;  // the source's own handle
  std::string id;    // as the application knows it; a part of a long fact has one of its own
  uint32_t version = 1;
  float score = 0.0f;
  Tokens tokens;     // of its text in a prompt (Fact::PromptText), tokenised alone
  std::string text;  // as it was given, for showing
};

class FactSource {
 public:
  virtual ~FactSource() = default;

  // The best facts for a question, best first, at most top_k.
  virtual Result<std::vector<RecalledFact>> Recall(std::string_view question, size_t top_k) = 0;

  // Their KV records, pinned as long as the handles live. Null: there is none that can be used, so the fact is text.
  // [facts]
  virtual Result<std::vector<RecordHandle>> Load(std::span<const RecalledFact> facts) = 0;

  // Which of them Load would find, without reading a record. [facts]
  virtual Result<std::vector<bool>> HasRecords(std::span<const RecalledFact> facts) = 0;
};

}  // namespace inferscale
