// The power is cut at every file operation of a scripted run, of the catalog and of the KV store; and bytes are flipped
// in every file.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/file_ops_test_util.h"
#include "catalog/crash_vfs_test_util.h"
#include "memory/memory_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

class MemoryCrashTest : public MemoryTest {
 protected:
  // What was known when a call had returned.
  struct Known {
    size_t ops = 0;
    std::string dump;
    std::set<std::string> gone;  // bytes that must be in no file
  };
  struct Encoded {
    std::string text;  // of its own fact
    std::vector<std::string> saw;
  };

  // Facts, what a search finds, and which facts have which record.
  std::string Dump(Memory& memory, std::vector<std::string>* wrong = nullptr);
  void DumpSpace(Memory& memory, const NamespaceInfo& ns, std::ostream& out, std::vector<std::string>* wrong);
  void Note() { known_.push_back({log_.size(), Dump(memory()), gone_}); }
  void EncodeAs(std::string_view ns, std::string_view id, const std::vector<std::string>& saw);
  void Gone(std::string_view ns, const std::string& id);
  void RunScript();
  void RunDeletions();
  void CheckCut(const std::vector<FileOp>& ops, size_t cut, Unsynced unsynced);
  void CheckFlip(const std::string& name, size_t at, const std::map<std::string, std::string>& texts, int& reported);

  FileOpLog log_;
  std::unique_ptr<RecordingVfs> vfs_;
  std::unique_ptr<RecordingFiles> files_;
  std::vector<Known> known_;
  std::set<std::string> gone_;
  std::map<Hash128, Encoded> encoded_;           // by payload
  std::map<std::string, std::string> payloads_;  // 64 bytes of each fact's newest record
};

void MemoryCrashTest::DumpSpace(Memory& memory, const NamespaceInfo& ns, std::ostream& out,
                                std::vector<std::string>* wrong) {
  std::set<std::string> live;
  std::vector<FactRow> rows;
  (void)memory.catalog().ScanFacts(ns.id, {.parents = true}, [&](const ScanRow& row) {
    rows.push_back(row.fact);
    if (row.fact.superseded_by.empty()) live.insert(row.fact.text);
    return true;
  });
  out << ns.name << ' ' << ns.facts << ' ' << ns.turns << '\n';
  for (const FactRow& row : rows) {
    out << row.id << ' ' << row.version << ' ' << row.text << ' ' << row.superseded_by << ' ' << row.metadata;
    const Tokens tokens = TokensOf(row.text);
    const WantedRecord wanted{row.seq, row.id, row.version, tokens};
    const auto loaded = memory.vault().Load(ns, kKvModel, kKvShape, {&wanted, 1});
    if (loaded && loaded->at(0)) {
      const Hash128 digest = HashBytes(PayloadOf(*loaded->at(0)));
      out << " KV " << digest.Hex();
      const auto encoded = encoded_.find(digest);
      const bool right = encoded != encoded_.end() && encoded->second.text == row.text &&
                         std::all_of(encoded->second.saw.begin(), encoded->second.saw.end(),
                                     [&](const std::string& text) { return live.contains(text); });
      if (!right && wrong != nullptr) wrong->push_back("a wrong record of " + row.id);
    }
    out << '\n';
  }
  RecallOptions all;
  all.top_k = 500;
  out << Found(memory, ns.name, "text number 3", all);
}

std::string MemoryCrashTest::Dump(Memory& memory, std::vector<std::string>* wrong) {
  std::ostringstream out;
  const auto spaces = memory.catalog().ListNamespaces(0, 100).value();
  for (const NamespaceInfo& ns : spaces)
    if (ns.facts > 0 || ns.turns > 0) DumpSpace(memory, ns, out, wrong);
  return out.str();
}

void MemoryCrashTest::EncodeAs(std::string_view ns, std::string_view id, const std::vector<std::string>& saw) {
  const FactRow row = Fact(ns, id);
  NewRecord record;
  record.fact = row.seq;
  Encoded encoded{row.text, {}};
  for (const std::string& each : saw) {
    const FactRow seen = Fact(ns, each);
    record.saw.push_back({SeenKind::kFact, seen.seq, seen.version});
    encoded.saw.push_back(seen.text);
  }
  record.record = MakeRecord(ns, row, record.saw);
  const std::string payload = PayloadOf(*record.record);
  encoded_[HashBytes(payload)] = encoded;
  payloads_[row.id] = payload.substr(0, 64);
  const auto put = memory().vault().Put(Space(ns).id, {&record, 1});
  ASSERT_TRUE(put && put->at(0));
  Note();
}

// The fact is to be deleted by the next call.
void MemoryCrashTest::Gone(std::string_view ns, const std::string& id) {
  gone_.insert(Fact(ns, id).text);
  if (const auto payload = payloads_.find(id); payload != payloads_.end()) gone_.insert(payload->second);
}

void MemoryCrashTest::RunScript() {
  Close();
  fs::remove_all(folder_ / "data");
  fs::create_directories(folder_ / "data");
  vfs_ = std::make_unique<RecordingVfs>(folder_ / "data", &log_);
  files_ = std::make_unique<RecordingFiles>(folder_ / "data", &log_);
  MemoryOptions options = Options();
  options.vfs = vfs_->name();
  options.files = files_.get();
  known_.push_back({0, "", {}});
  Open(options);
  Note();
  for (int i = 0; i < 8; ++i) {
    RememberText(kAda, "text number " + std::to_string(i) + " of ada, word" + HashBytes(std::to_string(i)).Hex(),
                 "f" + std::to_string(i));
    Note();
  }
  ASSERT_TRUE(memory().PutTurns(kAda, std::vector<NewTurn>{{"t", 1, "Ada", "hello there", {}}}));
  Note();
  for (int i = 0; i < 8; ++i)
    EncodeAs(kAda, "f" + std::to_string(i), {"f" + std::to_string((i + 1) % 8), "f" + std::to_string((i + 3) % 8)});
  std::vector<FactInput> many;
  std::string text;
  for (int i = 0; i < 400; ++i) text += "long" + std::to_string(i) + " ";
  many.push_back(Given(text + "end", "long"));
  for (int i = 0; i < 30; ++i)
    many.push_back(Given("text of bob " + std::to_string(i) + " alone", "b" + std::to_string(i)));
  Remember(kBob, many);
  Note();
  for (int i = 0; i < 6; ++i) EncodeAs(kBob, "b" + std::to_string(i), {"b10", "b1" + std::to_string(i)});
  ASSERT_NO_FATAL_FAILURE(RunDeletions());
  Open(options);
  Note();
  for (int i = 4; i < 6; ++i) EncodeAs(kAda, "f" + std::to_string(i), {});
  ASSERT_TRUE(memory().vault().Compact());
  Note();
  Close();
}

void MemoryCrashTest::RunDeletions() {
  Memory::Update update;
  update.text = "text that is new";
  ASSERT_TRUE(memory().UpdateFact(kAda, "f1", update));
  Note();
  Gone(kAda, "f2");
  Forget(kAda, {"f2"});
  Note();
  ASSERT_TRUE(memory().Supersede(kAda, "f3", "f4"));
  Note();
  for (int i = 0; i < 3; ++i) {
    Gone(kBob, "b" + std::to_string(i));
    Gone(kBob, "b1" + std::to_string(i));
    Forget(kBob, {"b" + std::to_string(i), "b1" + std::to_string(i)});
    Note();
  }
  ASSERT_TRUE(memory().vault().Compact());
  Note();
  for (int i = 3; i < 10; ++i) Gone(kBob, "b" + std::to_string(i));
  ASSERT_EQ(memory().ForgetWhere(kBob, R"({"id": {"in": ["b3", "b4", "b5", "b6", "b7", "b8", "b9"]}})")->deleted, 7u);
  Note();
  Gone(kBob, "long");
  ASSERT_TRUE(memory().ForgetNamespace(kBob));
  Note();
}

void MemoryCrashTest::CheckCut(const std::vector<FileOp>& ops, size_t cut, Unsynced unsynced) {
  const fs::path disk = folder_ / "cut";
  fs::remove_all(disk);
  MakeAfterPowerCut(ops, cut, unsynced, cut * 3 + static_cast<size_t>(unsynced), disk);
  const auto after =
      std::upper_bound(known_.begin(), known_.end(), cut, [](size_t n, const Known& known) { return n < known.ops; });
  MemoryOptions options = Options();
  options.data_folder = disk;
  auto opened = Memory::Open(options, &embedder_);
  ASSERT_TRUE(opened) << opened.error().message;
  Memory& found = **opened;
  std::vector<std::string> wrong;
  const std::string dump = Dump(found, &wrong);
  ASSERT_THAT(wrong, IsEmpty());
  if (dump != std::prev(after)->dump) {
    ASSERT_TRUE(after != known_.end() && dump == after->dump) << "found:\n"
                                                              << dump << "last acknowledged:\n"
                                                              << std::prev(after)->dump;
  }
  ASSERT_THAT(*found.Fsck(false), IsEmpty());
  ASSERT_THAT(*found.catalog().PendingErase(10), IsEmpty());
  const std::string files = AllFiles(disk);
  for (const std::string& gone : std::prev(after)->gone)
    ASSERT_EQ(files.find(gone), std::string::npos) << "it was forgotten: " << gone;
  // It goes on working.
  const std::vector<FactInput> fact = {Given("after the cut", "new")};
  ASSERT_TRUE(found.Remember("user:new", fact));
  ASSERT_EQ(found.Recall("user:new", "after", {})->size(), 1u);
}

TEST_F(MemoryCrashTest, EveryAcknowledgedCallSurvivesAndWhatIsForgottenStaysAway) {
  ASSERT_NO_FATAL_FAILURE(RunScript());
  const std::vector<FileOp> ops = log_.Copy();
  EXPECT_GE(ops.size(), 500u);
  EXPECT_TRUE(std::any_of(ops.begin(), ops.end(), [](const FileOp& op) { return op.name.starts_with("kv"); }));
  EXPECT_GT(gone_.size(), 15u);
  for (size_t cut = 0; cut <= ops.size(); ++cut) {
    constexpr Unsynced kUnsynced[] = {Unsynced::kTorn, Unsynced::kDropped, Unsynced::kTorn, Unsynced::kKept};
    SCOPED_TRACE("cut " + std::to_string(cut) + " of " + std::to_string(ops.size()));
    ASSERT_NO_FATAL_FAILURE(CheckCut(ops, cut, kUnsynced[cut % 4]));
  }
  RecordProperty("cuts", std::to_string(ops.size()));
}

// One byte of one file is another: what is found is right, or missing and reported.
void MemoryCrashTest::CheckFlip(const std::string& name, size_t at, const std::map<std::string, std::string>& texts,
                                int& reported) {
  const fs::path disk = folder_ / "flip";
  fs::remove_all(disk);
  fs::copy(folder_ / "data", disk, fs::copy_options::recursive);
  {
    std::fstream file(disk / name, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ (1 << (at % 8)));
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  MemoryOptions options = Options();
  options.data_folder = disk;
  auto opened = Memory::Open(options, &embedder_);
  if (!opened) {
    ++reported;
    EXPECT_TRUE(opened.error().code == ErrorCode::kCorrupt || opened.error().code == ErrorCode::kVersionUnsupported ||
                opened.error().code == ErrorCode::kMismatch)
        << opened.error().message;
    return;
  }
  Memory& found = **opened;
  size_t right = 0, records = 0;
  bool failed = false;
  const auto ns = found.Find(kAda);
  for (const auto& [id, text] : texts) {
    const auto fact = ns ? found.catalog().GetFact(ns->id, id) : tl::unexpected(ns.error());
    failed |= !fact && fact.error().code != ErrorCode::kNotFound;
    if (!fact) continue;
    ASSERT_EQ(fact->text, text);
    ++right;
    const Tokens tokens = TokensOf(text);
    const WantedRecord wanted{fact->seq, fact->id, fact->version, tokens};
    const auto loaded = found.vault().Load(*ns, kKvModel, kKvShape, {&wanted, 1});
    failed |= !loaded;
    if (!loaded || !loaded->at(0)) continue;
    ++records;
    const auto encoded = encoded_.find(HashBytes(PayloadOf(*loaded->at(0))));
    ASSERT_TRUE(encoded != encoded_.end() && encoded->second.text == text) << "a wrong record";
  }
  const auto findings = found.Fsck(true);
  const bool named = !findings || !findings->empty();
  if (right < texts.size()) {
    EXPECT_TRUE(failed || named) << "text was lost and nobody says so";
  }
  // KV that was lost is back after the repair (of an index), or queued.
  if (right == texts.size() && records < texts.size() && !failed && findings) {
    for (const auto& [id, text] : texts) {
      const auto fact = found.catalog().GetFact(ns->id, id);
      const Tokens tokens = TokensOf(text);
      const WantedRecord wanted{fact->seq, fact->id, fact->version, tokens};
      const auto loaded = found.vault().Load(*ns, kKvModel, kKvShape, {&wanted, 1});
      const auto queued = found.catalog().QueuedFacts(ns->id);
      EXPECT_TRUE(
          !loaded || !queued || loaded->at(0) ||
          std::any_of(queued->begin(), queued->end(), [&](const QueueItem& item) { return item.fact == fact->seq; }))
          << "the KV of " << id << " was lost and nobody makes it again";
    }
  }
  reported += failed || named || records < texts.size() ? 1 : 0;
}

TEST_F(MemoryCrashTest, AFlippedByteIsNeverAWrongTextOrRecord) {
  std::map<std::string, std::string> texts;
  for (int i = 0; i < 12; ++i) {
    const std::string id = "f" + std::to_string(i);
    texts[id] = "text number " + std::to_string(i) + " of ada";
    RememberText(kAda, texts[id], id);
  }
  for (const auto& [id, text] : texts) {
    ASSERT_NO_FATAL_FAILURE(EncodeAs(kAda, id, {}));
  }
  Close();
  std::vector<std::string> names = {"catalog.db"};
  for (const auto& entry : fs::directory_iterator(folder_ / "data" / "kv"))
    names.push_back("kv/" + entry.path().filename().string());
  ASSERT_EQ(names.size(), 2u);
  for (const std::string& name : names) {
    int reported = 0, flips = 0;
    const auto size = static_cast<size_t>(fs::file_size(folder_ / "data" / name));
    for (size_t at = 0; at < size; at += std::max<size_t>(1, size / 400) | 1) {
      SCOPED_TRACE(name + " byte " + std::to_string(at) + " of " + std::to_string(size));
      ASSERT_NO_FATAL_FAILURE(CheckFlip(name, at, texts, reported));
      ++flips;
    }
    EXPECT_GT(flips, 300);
    EXPECT_GT(reported, flips / 20) << name << ": most bytes of a database are unused ones";
  }
}

}  // namespace
}  // namespace inferscale
