// What tests of the fact encoder look at: whose records saw whom, and that no fact is forgotten.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "memory/engine_memory_test_util.h"

namespace inferscale {

class FactEncoderTest : public EngineMemoryTest {
 protected:
  std::string Id(size_t i) { return "f" + std::to_string(i); }
  std::vector<Seen> SeenOf(const std::vector<std::string>& ids) {
    std::vector<Seen> seen;
    for (const std::string& id : ids) {
      const FactRow fact = Fact(kAda, id);
      seen.push_back({SeenKind::kFact, fact.seq, fact.version});
    }
    return seen;
  }
  std::vector<std::string> Ids(size_t first, size_t end) {
    std::vector<std::string> ids;
    for (size_t i = first; i < end; ++i) ids.push_back(Id(i));
    return ids;
  }
  Hash128 DigestOf(const std::vector<std::string>& ids) {  // of an anchored window
    std::vector<Tokens> tokens;
    for (const std::string& id : ids) tokens.push_back(engine_->tokenizer().Text(Fact(kAda, id).text + "\n"));
    std::vector<Sight> sights;
    for (size_t i = 0; i < ids.size(); ++i) sights.push_back({ids[i], 1, tokens[i]});
    return WindowDigest(WindowKind::kAnchored, sights);
  }
  uint64_t CountText(const NamespaceInfo& ns) {
    return memory().catalog().CountWithoutKv(ns.id, engine_->info().model_key).value();
  }
  // Every fact either has a record or is queued for one.
  void ExpectNothingLost(size_t facts) {
    const auto rows = Rows(kAda);
    size_t queued = 0;
    for (const QueueItem& item : Queued()) {
      ++queued;
      for (const auto& [id, row] : rows) EXPECT_NE(row.fact, item.fact) << id << " is both";
    }
    EXPECT_EQ(rows.size() + queued, facts);
  }
  void ExpectNobodySaw(FactSeq fact) {
    for (const auto& [id, row] : Rows(kAda))
      for (const Seen& seen : row.saw) EXPECT_NE(seen.seq, fact) << id;
  }
  // Of records that are in both: those that are other records now.
  size_t Replaced(const std::map<std::string, KvRow>& before, const std::map<std::string, KvRow>& after) {
    size_t replaced = 0;
    for (const auto& [id, row] : after) replaced += before.contains(id) && before.at(id).record != row.record ? 1 : 0;
    return replaced;
  }
  std::vector<QueueItem> Queued() { return memory().catalog().QueuedFacts(Space(kAda).id).value(); }
};

}  // namespace inferscale
