// The power is cut at every file operation of a scripted run. What is found afterwards is the state after the last call
// that returned, or after the one that was under way: never half of one.
#include <gmock/gmock.h>
#include <sqlite3.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "catalog/catalog_test_util.h"
#include "catalog/crash_vfs_test_util.h"

namespace inferscale {
namespace {

namespace fs = std::filesystem;
using testing::IsEmpty;

// Everything that a catalog has, as text. Instants of use are hints, and left out.
std::string DumpNamespace(Catalog& catalog, const NamespaceInfo& info) {
  std::ostringstream out;
  out << info.name << ' ' << info.facts << ' ' << info.searchable << ' ' << info.words << ' ' << info.turns << ' '
      << info.generation << ' ' << info.kv_bytes << '\n';
  (void)catalog.ScanFacts(info.id, {.with_vector = true, .parents = true}, [&](const ScanRow& row) {
    const FactRow& fact = row.fact;
    out << fact.seq << ' ' << fact.id << ' ' << fact.version << ' ' << fact.text << ' ' << fact.superseded_by << ' '
        << fact.expires_us.value_or(0) << ' ' << fact.metadata;
    for (const float element : row.vector) out << ' ' << element;
    const auto history = catalog.History(info.id, fact.id).value();
    for (const HistoryEntry& entry : history) out << ' ' << int(entry.event) << entry.old_text.value_or("-");
    out << '\n';
    return true;
  });
  const auto turns = catalog.GetTurns(info.id, 0, 1000).value();
  for (const TurnRow& turn : turns) out << turn.id << ' ' << turn.version << ' ' << turn.text << '\n';
  const auto runs = catalog.LoadRuns(info.id).value();
  for (const StoredRun& run : runs) out << "run " << run.number << ' ' << run.run.members.size() << '\n';
  const auto queue = catalog.QueuedFacts(info.id).value();
  for (const QueueItem& item : queue) out << "queued " << item.fact << '\n';
  const auto terms = catalog.Postings(info.id, std::vector<std::string>{"text", "new"}, 1000).value();
  for (const TermPostings& term : terms) out << "term " << term.facts << ' ' << term.postings.size() << '\n';
  return out.str();
}

std::string Dump(Catalog& catalog) {
  std::ostringstream out;
  const auto spaces = catalog.ListNamespaces(0, 100).value();
  for (const NamespaceInfo& info : spaces) out << DumpNamespace(catalog, info);
  (void)catalog.ScanRecords([&](const KvRow& row) {
    out << "record " << row.record << ' ' << row.fact << ' ' << row.saw.size() << '\n';
    return true;
  });
  const auto erasing = catalog.PendingErase(1000).value();
  for (const DeadRecord& dead : erasing) out << "erase " << dead.record << '\n';
  out << catalog.GetSetting("s").value().value_or("none") << '\n';
  return out.str();
}

std::string RecordBytes(RecordSeq record) { return std::string(700, static_cast<char>('a' + record % 26)); }

class SqliteCrashTest : public CatalogTest {
 protected:
  struct Known {
    size_t ops = 0;  // file operations done when the call returned
    std::string dump;
  };

  void Note() { known_.push_back({log_.size(), Dump(catalog())}); }
  // A record's bytes are durable before its row is, as the store does it.
  void PutOne(FactSeq fact, std::vector<FactSeq> saw) {
    const KvRow row = Record(ns_, fact, std::move(saw));
    Note();  // ids were reserved
    const fs::path path = folder_ / "kv" / std::to_string(row.record);
    auto file = files_->Open(path, OpenMode::kCreate).value();
    const std::string bytes = RecordBytes(row.record);
    const std::string_view piece = bytes;
    EXPECT_TRUE(file->Write(0, {&piece, 1}) && file->Sync() && files_->SyncFolder(folder_ / "kv"));
    EXPECT_TRUE(catalog().PutRecords({&row, 1}));
    Note();
  }
  void RunScript();
  void CheckCut(const std::vector<FileOp>& ops, size_t cut, Unsynced unsynced);

  FileOpLog log_;
  std::unique_ptr<RecordingVfs> vfs_;
  std::unique_ptr<RecordingFiles> files_;
  std::vector<Known> known_;
};

void SqliteCrashTest::RunScript() {
  Close();
  fs::remove(file());
  known_.push_back({0, "none\n"});
  vfs_ = std::make_unique<RecordingVfs>(folder_, &log_);
  files_ = std::make_unique<RecordingFiles>(folder_, &log_);
  const auto reopen = [&] {
    Open({.vfs = vfs_->name()});
    Note();
  };
  reopen();
  ASSERT_TRUE(files_->MakeFolder(folder_ / "kv"));  // from here on the folder is in use
  ns_ = Name("user:ada");
  Note();
  std::vector<FactSeq> facts;
  for (int i = 0; i < 6; ++i) {
    facts.push_back(AddText(ns_, "f" + std::to_string(i), "text number " + std::to_string(i)));
    Note();
  }
  NewFact big = FactOf("big", "text");
  big.content.text = std::string(9000, 'x');  // on pages of its own
  Add(ns_, {LongFact("long", {"text a", "text b"}), big}, {"key", 0});
  Note();
  for (size_t i = 0; i < 4; ++i) PutOne(facts[i], {facts[(i + 1) % 4]});
  ASSERT_TRUE(catalog().PutTurns(ns_, std::vector<NewTurn>{{"t", 1, "Ada", "hello", {}}}));
  Note();
  ASSERT_TRUE(catalog().SaveRuns(ns_, std::vector<FactRun>{{{}, {{"f0", 1, {1, 2}, 3}, {"f1", 1, {1, 3}, 3}}}}));
  Note();
  ASSERT_TRUE(catalog().UpdateFact(ns_, "f1", {.content = ContentOf("new text")}));
  Note();
  ASSERT_TRUE(catalog().Scrub());
  Note();
  reopen();
  Delete(ns_, {"f2", "long"});
  Note();
  ASSERT_TRUE(catalog().Supersede(ns_, "f3", "f4"));
  Note();
  ASSERT_TRUE(catalog().Scrub());
  Note();
  ASSERT_TRUE(catalog().SetSetting("s", "value"));
  Note();
  const NamespaceId other = Name("other");
  Note();
  for (int batch = 0; batch < 3; ++batch) {
    std::vector<NewFact> many;
    for (int i = 0; i < 40; ++i) many.push_back(FactOf("", "text " + std::to_string(batch * 100 + i)));
    Add(other, many);
    Note();
  }
  ASSERT_TRUE(catalog().ForgetErased(std::vector<uint64_t>{1, 2}));
  Note();
  ASSERT_TRUE(catalog().DeleteAllFacts(other));
  Note();
  ASSERT_TRUE(catalog().Scrub());
  Note();
  ASSERT_TRUE(catalog().DeleteNamespace(other));
  Note();
  EXPECT_THAT(Findings(true), IsEmpty());
  Note();
  Close();
}

void SqliteCrashTest::CheckCut(const std::vector<FileOp>& ops, size_t cut, Unsynced unsynced) {
  const fs::path disk = folder_ / "cut";
  fs::remove_all(disk);
  MakeAfterPowerCut(ops, cut, unsynced, cut * 3 + static_cast<size_t>(unsynced), disk);
  const auto after =
      std::upper_bound(known_.begin(), known_.end(), cut, [](size_t n, const Known& known) { return n < known.ops; });
  SqliteOpenReport report;
  const auto opened = OpenSqliteCatalog(disk, {.was_used = fs::exists(disk / "kv")}, &report);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_FALSE(report.changes_lost) << "a power cut is no damage";
  Catalog& found = **opened;
  const std::string dump = Dump(found);
  if (dump != std::prev(after)->dump) {
    ASSERT_TRUE(after != known_.end() && dump == after->dump) << "found:\n"
                                                              << dump << "last acknowledged:\n"
                                                              << std::prev(after)->dump;
  }
  const auto findings = found.Fsck(false);
  ASSERT_TRUE(findings && findings->empty()) << (findings ? findings->at(0).what : findings.error().message);
  (void)found.ScanRecords([&](const KvRow& row) {
    std::ifstream in(disk / "kv" / std::to_string(row.record), std::ios::binary);
    std::ostringstream bytes;
    bytes << in.rdbuf();
    EXPECT_EQ(bytes.str(), RecordBytes(row.record)) << "a row without its record's bytes";
    return true;
  });
  // It goes on working.
  ASSERT_TRUE(found.SwitchEmbedder(kTestEmbedder));
  const NamespaceId ns = found.OpenNamespace("after").value();
  ASSERT_TRUE(found.AddFacts(ns, std::vector<NewFact>{FactOf("f", "after the cut")}, {}));
  ASSERT_EQ(found.GetFact(ns, "f")->text, "after the cut");
}

TEST_F(SqliteCrashTest, EveryAcknowledgedCallSurvivesAndNoneIsHalf) {
  ASSERT_NO_FATAL_FAILURE(RunScript());
  const std::vector<FileOp> ops = log_.Copy();
  EXPECT_GE(ops.size(), 500u);
  for (size_t cut = 0; cut <= ops.size(); ++cut) {
    constexpr Unsynced kUnsynced[] = {Unsynced::kTorn, Unsynced::kDropped, Unsynced::kTorn, Unsynced::kKept};
    SCOPED_TRACE("cut " + std::to_string(cut) + " of " + std::to_string(ops.size()));
    ASSERT_NO_FATAL_FAILURE(CheckCut(ops, cut, kUnsynced[cut % 4]));
  }
}

// Every operation of an addition fails once, from its place on: full disk, and errors of the disk.
TEST_F(SqliteCrashTest, ADiskThatFailsIsAnErrorThatChangesNothingAndPasses) {
  Close();
  vfs_ = std::make_unique<RecordingVfs>(folder_, &log_);
  Open({.vfs = vfs_->name()});
  size_t failures = 0, facts = 0;
  for (const int code : {SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_FSYNC}) {
    for (size_t place = 0;; ++place) {
      SCOPED_TRACE("code " + std::to_string(code) + ", operation " + std::to_string(place));
      size_t seen = 0;
      vfs_->FailBy([&](const FileOp& op) {
        const bool is_sync = op.kind == FileOp::Kind::kSync;
        return is_sync == (code == SQLITE_IOERR_FSYNC) && seen++ >= place ? code : SQLITE_OK;
      });
      NewFact big = FactOf("f" + std::to_string(facts), "fact number " + std::to_string(facts));
      big.metadata = std::string(9000, ' ');
      const auto added = catalog().AddFacts(ns_, {&big, 1}, {});
      vfs_->FailBy(nullptr);
      if (added) break;  // it has no more operations
      ++failures;
      EXPECT_EQ(added.error().code, code == SQLITE_FULL ? ErrorCode::kNoSpace : ErrorCode::kIo);
      EXPECT_EQ(catalog().GetNamespace(ns_)->facts, facts);
      EXPECT_EQ(CodeOf(catalog().GetFact(ns_, big.id)), ErrorCode::kNotFound);
      ASSERT_TRUE(catalog().AddFacts(ns_, {&big, 1}, {})) << "the disk works again";
      ++facts;
    }
    ++facts;
    ASSERT_TRUE(catalog().Scrub());  // the next one begins a log
  }
  EXPECT_GT(failures, 20u);
  Open();
  EXPECT_EQ(catalog().GetNamespace(ns_)->facts, facts);
  EXPECT_THAT(Findings(), IsEmpty());
}

}  // namespace
}  // namespace inferscale
