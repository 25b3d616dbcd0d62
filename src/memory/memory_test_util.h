// A durable memory in a folder of its own (in memory where there is such a file system), with a clock that the test
// turns, an embedder that needs no model, and KV records made of random numbers.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "memory/memory.h"

namespace inferscale {

// Bag of words: each word has a random direction, a text the unit vector along their sum. Texts with words in common
// are near each other, and equal bags of words are equal. [dim] Thread-safe.
class BagEmbedder final : public Embedder {
 public:
  explicit BagEmbedder(uint32_t dim = 32, uint64_t seed = 1) : dim_(dim), key_{seed, dim} {}
  uint32_t dim() const override { return dim_; }
  const std::string& name() const override { return name_; }
  Hash128 key() const override { return key_; }
  size_t CountTokens(std::string_view text) const override;  // words, and two
  Result<std::vector<float>> Embed(std::span<const std::string_view> texts) override;

 private:
  const uint32_t dim_;
  const Hash128 key_;
  const std::string name_ = "bag of words";
};

inline constexpr ModelKey kKvModel{5, 6};
inline constexpr KvShape kKvShape{2, 1, 8, 8};  // 64 bytes a token

// Three token ids that only this text has.
Tokens TokensOf(std::string_view text);
// A record of the fact as it is. tokens: of the text, repeated so often. payload: of random numbers; seed 0: never the
// same twice.
RecordHandle MakeRecord(std::string_view name_space, const FactRow& fact, const std::vector<Seen>& saw,
                        const ModelKey& model = kKvModel, size_t repeat = 1, uint64_t seed = 0);
std::string PayloadOf(const KvRecord& record);

FactInput Given(std::string_view text, std::string_view id = {});

inline constexpr char kAda[] = "user:ada";  // namespaces
inline constexpr char kBob[] = "user:bob";

RecallOptions All();
RecallOptions Filtered(std::string_view filter);        // all that it finds
std::string Words(int count, const std::string& stem);  // "stem0 stem1 …"

class MemoryTest : public ::testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;
  MemoryOptions Options();
  void Open() { Open(Options()); }  // again: closes first
  void Open(const MemoryOptions& options);
  void Close() { memory_.reset(); }
  Memory& memory() { return *memory_; }
  KvVault& vault() { return memory_->vault(); }

  // All of these expect success.
  std::vector<AddedFact> Remember(std::string_view ns, const std::vector<FactInput>& facts);
  std::string RememberText(std::string_view ns, std::string_view text, std::string_view id = {});  // its id
  std::vector<RecallHit> Recall(std::string_view ns, std::string_view query, const RecallOptions& options = {});
  std::vector<std::string> RecallTexts(std::string_view ns, std::string_view query, const RecallOptions& options = {});
  DeleteResult Forget(std::string_view ns, const std::vector<std::string>& ids);
  FactRow Fact(std::string_view ns, std::string_view id);
  NamespaceInfo Space(std::string_view ns);
  // Puts a record of the fact that saw others at their present versions; false: it was refused.
  bool Encode(std::string_view ns, std::string_view id, const std::vector<std::string>& saw = {}, size_t repeat = 1);
  // Facts "PREFIX0", "PREFIX1", … of the namespace, each with a record.
  void Fill(std::string_view ns, const std::string& prefix, int count, size_t repeat = 1);
  RecordHandle Load(std::string_view ns, std::string_view id, size_t repeat = 1);  // null: nothing usable
  bool IsQueued(std::string_view ns, std::string_view id);
  // Ids, scores and texts of everything that a search finds, as text; rows of equal score by id.
  std::string Found(Memory& memory, std::string_view ns, std::string_view query, const RecallOptions& options);
  std::vector<std::string> Findings(bool repair = false);

  template <class T>
  static ErrorCode CodeOf(const Result<T>& result) {
    EXPECT_FALSE(result.has_value());
    return result ? ErrorCode::kInternal : result.error().code;
  }
  template <class T>
  static std::string MessageOf(const Result<T>& result) {
    return result ? "no error" : result.error().message;
  }

  std::filesystem::path folder_;
  BagEmbedder embedder_;
  std::atomic<Micros> later_{0};  // what the memory's clock is ahead of the system's
  std::unique_ptr<Memory> memory_;
};

// Every file below the folder, one after another.
std::string AllFiles(const std::filesystem::path& folder);

}  // namespace inferscale
