// What was forgotten is in no file and nowhere in the process: words, token ids, vectors, KV.
#include <gmock/gmock.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "base/clear_freed.h"
#include "base/memory_scan_test_util.h"
#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;

constexpr char kNs[] = "user:ada";
constexpr char kOther[] = "user:bob";

// The bytes of one fact that must go, kept in another form.
struct Traces {
  std::vector<std::pair<std::string, HiddenBytes>> all;

  void Add(std::string name, const void* bytes, size_t size) {
    std::string copy(static_cast<const char*>(bytes), size);
    all.emplace_back(std::move(name), HiddenBytes::Of(copy));
  }
};

// Longer than what is freed and used again at once.
std::string LongText(const std::string& word) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += "filler ";
  return text + word + " and so on";
}

class Eraser {
 public:
  Eraser(MemoryOptions options, Embedder& embedder) : embedder_(embedder) {
    auto opened = Memory::Open(options, &embedder);
    Expect(opened.has_value(), "open");
    if (opened) memory_ = std::move(*opened);
    folder_ = options.data_folder;
  }
  Memory& memory() { return *memory_; }
  const std::string& report() const { return report_; }
  void Expect(bool condition, const std::string& what) {
    if (!condition) report_ += what + "; ";
  }

  // A fact with a word nobody else has, an older text, a source turn, a record, and another fact's record that saw it.
  Traces Remember(const std::string& ns, const std::string& id, std::optional<Micros> expires_us);
  void Use(const std::string& ns);
  void ExpectThere(const Traces& traces, const std::string& which) {
    for (const auto& [name, bytes] : traces.all)
      Expect(bytes.CountInMemory() > 0, which + ": the search does not find " + name);
  }
  void ExpectGone(const Traces& traces, const std::string& which);
  void ExpectStored(const Traces& traces);  // in a file; what is not in use need not be in memory

 private:
  FactRow Row(const std::string& ns, const std::string& id) {
    auto row = memory().catalog().GetFact(memory().Find(ns)->id, id);
    Expect(row.has_value(), "row of " + id);
    return row ? *std::move(row) : FactRow();
  }
  void Encode(const std::string& ns, const std::string& id, std::vector<Seen> saw, Traces& traces);

  Embedder& embedder_;
  fs::path folder_;
  std::unique_ptr<Memory> memory_;
  std::string report_;
  std::map<std::string, size_t> repeats_;  // of an id's tokens in its record
};

void Eraser::Encode(const std::string& ns, const std::string& id, std::vector<Seen> saw, Traces& traces) {
  const FactRow row = Row(ns, id);
  // Three tokens of 64 bytes each: the first two have buffers of the payload pool that none of the others is given.
  const size_t repeats = repeats_[id] = repeats_.empty() ? 1300 : repeats_.size() == 1 ? 700 : 20;
  const NewRecord record{row.seq, MakeRecord(ns, row, saw, kKvModel, repeats), std::move(saw)};
  const auto* const payload = reinterpret_cast<const char*>(record.record->payload.data());
  traces.Add("64 bytes of KV of " + id, payload + record.record->payload.bytes() / 2, 64);
  const auto put = memory().vault().Put(memory().Find(ns)->id, {&record, 1});
  Expect(put && put->at(0), "put of " + id);
}

Traces Eraser::Remember(const std::string& ns, const std::string& id, std::optional<Micros> expires_us) {
  Traces traces;
  const HiddenBytes word = HiddenBytes::Word(), old_word = HiddenBytes::Word(), turn_word = HiddenBytes::Word();
  traces.all = {{"the word", word}, {"the former word", old_word}, {"the turn's word", turn_word}};
  std::string shown = word.Show(), old_shown = old_word.Show(), turn_shown = turn_word.Show();
  std::vector<NewTurn> turns = {{"turn of " + id, {}, "Ada", LongText(turn_shown), {}}};
  Expect(memory().PutTurns(ns, turns).has_value(), "turns");
  std::vector<FactInput> facts = {Given(LongText(old_shown), id), Given("neighbour of " + id, "near " + id)};
  facts[0].turn = turns[0].id;
  facts[0].expires_us = expires_us;
  RememberOptions once;
  once.idempotency_key = "once " + id;
  Expect(memory().Remember(ns, facts, once).has_value(), "remember");
  Memory::Update update;
  update.text = LongText(shown);
  Expect(memory().UpdateFact(ns, id, update).has_value(), "update");
  const FactRow row = Row(ns, id);
  Tokens tokens = TokensOf(row.text);
  traces.Add("token ids", tokens.data(), tokens.size() * sizeof(TokenId));
  explicit_bzero(tokens.data(), tokens.size() * sizeof(TokenId));
  const std::string_view text = row.text;
  std::vector<float> vector = embedder_.Embed({&text, 1}).value();
  traces.Add("64 bytes of the vector", vector.data() + 8, 64);
  Encode(ns, id, {}, traces);
  // What expires is in nobody's window.
  const Seen seen{SeenKind::kFact, row.seq, row.version};
  if (expires_us)
    Expect(memory().Forget(ns, std::vector<std::string>{"near " + id}).has_value(), "forget");
  else
    Encode(ns, "near " + id, {seen}, traces);
  for (std::string* each : {&shown, &old_shown, &turn_shown}) Wipe(*each);
  return traces;
}

// Search, lists, history and loads, so that every cache has it.
void Eraser::Use(const std::string& ns) {
  RecallOptions options;
  options.top_k = 100;
  const NamespaceInfo info = memory().Find(ns).value();
  for (int round = 0; round < 3; ++round) {
    const auto hits = memory().Recall(ns, "filler and so on", options);
    Expect(hits.has_value(), "recall");
    if (!hits) return;
    for (const RecallHit& hit : *hits) {
      Tokens tokens;
      for (size_t i = 0; i < repeats_[hit.fact.id]; ++i)
        for (const TokenId id : TokensOf(hit.fact.text)) tokens.push_back(id);
      const WantedRecord wanted{hit.fact.seq, hit.fact.id, hit.fact.version, tokens};
      const auto loaded = memory().vault().Load(info, kKvModel, kKvShape, {&wanted, 1});
      Expect(loaded && loaded->at(0), "load of " + hit.fact.id);
      Expect(memory().catalog().History(info.id, hit.fact.id).has_value(), "history");
    }
    Expect(memory().catalog().ListFacts(info.id, {}).has_value(), "list");
  }
}

void Eraser::ExpectGone(const Traces& traces, const std::string& which) {
  for (const auto& [name, bytes] : traces.all)
    Expect(bytes.CountInMemory() == 0, which + ": " + name + " is still in memory");
  const std::string files = AllFiles(folder_);
  for (const auto& [name, bytes] : traces.all) {
    std::string shown = bytes.Show();
    Expect(files.find(shown) == std::string::npos, which + ": " + name + " is still in a file");
    Wipe(shown);
  }
}

void Eraser::ExpectStored(const Traces& traces) {
  const std::string files = AllFiles(folder_);
  for (const auto& [name, bytes] : traces.all)
    Expect(files.find(bytes.Show()) != std::string::npos, name + " of a fact that nobody forgot is in no file");
}

// What is wrong, or "".
std::string LookForForgotten(const MemoryOptions& options, Embedder& embedder, std::atomic<Micros>& later) {
  Eraser eraser(options, embedder);
  if (!eraser.report().empty()) return eraser.report();
  const Traces one = eraser.Remember(kNs, "one", std::nullopt), filtered = eraser.Remember(kNs, "two", std::nullopt);
  const Traces expired = eraser.Remember(kNs, "three", NowMicros() + 3600ll * 1'000'000);
  const Traces space = eraser.Remember(kOther, "four", std::nullopt), kept = eraser.Remember(kNs, "five", std::nullopt);
  eraser.Use(kNs);
  eraser.Use(kOther);
  for (const Traces* traces : {&one, &filtered, &expired, &space}) eraser.ExpectThere(*traces, "before");
  Memory& memory = eraser.memory();
  const std::string id = "one";
  eraser.Expect(memory.Forget(kNs, {&id, 1})->deleted == 1, "one is not there");
  eraser.ExpectGone(one, "deleted");
  eraser.Expect(memory.ForgetWhere(kNs, R"({"id": "two"})")->deleted == 1, "two is not there");
  eraser.ExpectGone(filtered, "filtered");
  later = 3601ll * 1'000'000;
  eraser.Expect(memory.ForgetExpired()->deleted == 1, "three is not there");
  eraser.ExpectGone(expired, "expired");
  eraser.Expect(memory.ForgetNamespace(kOther)->deleted == 2, "the namespace is not there");
  eraser.ExpectGone(space, "namespace");
  eraser.ExpectStored(kept);
  return eraser.report();
}

using MemoryEraseTest = MemoryTest;

// In a process of its own, since this one has what other tests left behind.
TEST_F(MemoryEraseTest, NothingOfWhatIsForgottenIsLeftAnywhere) {
  if (!FreedHeapIsCleared()) GTEST_SKIP() << "the sanitizer keeps freed memory";
  Close();
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string report = LookForForgotten(Options(), embedder_, later_) + "END";
    (void)!::write(pipe[1], report.data(), report.size());
    ::_exit(0);
  }
  ::close(pipe[1]);
  std::string report(1 << 16, '\0');
  report.resize(static_cast<size_t>(std::max<ssize_t>(::read(pipe[0], report.data(), report.size()), 0)));
  ::close(pipe[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(report, "END");
}

}  // namespace
}  // namespace inferscale
