#include "catalog/catalog_test_util.h"

#include <sqlite3.h>

#include <map>

#include "catalog/page_check_vfs.h"

namespace inferscale {

namespace fs = std::filesystem;

SearchData SearchOf(std::string_view text) {
  SearchData search;
  std::map<std::string, uint32_t> counts;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (end > at) ++counts[std::string(text.substr(at, end - at))];
    search.words += end > at ? 1 : 0;
    at = end + 1;
  }
  for (const auto& [term, count] : counts) search.terms.push_back({term, count});
  const Hash128 hash = HashBytes(text);
  for (uint32_t i = 0; i < kTestDims; ++i)
    search.vector.push_back(static_cast<float>((hash.low >> (16 * i)) & 0xFFFF) / 65536.0f);
  return search;
}

FactContent ContentOf(std::string_view text, std::optional<Date> date) {
  return {std::string(text), date, SearchOf(text), {}};
}

NewFact FactOf(std::string_view id, std::string_view text) {
  NewFact fact;
  fact.id = id;
  fact.content = ContentOf(text);
  return fact;
}

NewFact LongFact(std::string_view id, const std::vector<std::string>& parts) {
  NewFact fact;
  fact.id = id;
  for (const std::string& part : parts) {
    fact.content.text += (fact.content.text.empty() ? "" : " ") + part;
    fact.content.parts.push_back({part, SearchOf(part)});
  }
  return fact;
}

void CatalogTest::SetUp() {
  const fs::path memory = "/dev/shm";
  const fs::path parent = fs::is_directory(memory) ? memory : fs::temp_directory_path();
  std::string pattern = (parent / "inferscale_catalog_test.XXXXXX").string();
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  folder_ = pattern;
  Open();
  ns_ = Name("user:ada");
}

void CatalogTest::TearDown() {
  catalog_.reset();
  fs::remove_all(folder_);
}

void CatalogTest::Open(SqliteOptions options) {
  catalog_.reset();
  options.clock = [this] { return now_.load(); };
  auto opened = OpenSqliteCatalog(folder_, options);
  ASSERT_TRUE(opened) << opened.error().message;
  catalog_ = std::move(*opened);
  const Status embedder = catalog_->UseEmbedder(kTestEmbedder);
  ASSERT_TRUE(embedder) << embedder.error().message;
}

NamespaceId CatalogTest::Name(std::string_view name) {
  const auto ns = catalog_->OpenNamespace(name);
  EXPECT_TRUE(ns) << ns.error().message;
  return *ns;
}

AddResult CatalogTest::Add(NamespaceId ns, std::vector<NewFact> facts, AddOptions options) {
  auto added = catalog_->AddFacts(ns, facts, options);
  EXPECT_TRUE(added) << added.error().message;
  return added ? *std::move(added) : AddResult();
}

FactSeq CatalogTest::AddText(NamespaceId ns, std::string_view id, std::string_view text) {
  const AddResult added = Add(ns, {FactOf(id, text)});
  EXPECT_EQ(added.facts.size(), 1u);
  EXPECT_EQ(added.facts.at(0).outcome, AddOutcome::kAdded);
  return added.facts.at(0).seq;
}

DeleteResult CatalogTest::Delete(NamespaceId ns, std::vector<std::string> ids) {
  auto deleted = catalog_->DeleteFacts(ns, ids);
  EXPECT_TRUE(deleted) << deleted.error().message;
  return deleted ? *std::move(deleted) : DeleteResult();
}

KvRow CatalogTest::Record(NamespaceId ns, FactSeq fact, std::vector<FactSeq> saw) {
  KvRow row;
  row.record = catalog_->ReserveRecords(1).value();
  row.name_space = ns;
  row.fact = fact;
  row.model_key = kTestModel;
  row.window_digest = HashBytes("window " + std::to_string(row.record));
  row.n_tokens = 9;
  row.location = {1, row.record * 1000, 100 + row.record};
  saw.push_back(fact);
  const auto rows = catalog_->GetFacts(ns, saw).value();
  for (const FactRow& seen : rows) {
    if (seen.seq == fact)
      row.content_version = seen.version;
    else
      row.saw.push_back({SeenKind::kFact, seen.seq, seen.version});
  }
  return row;
}

KvRow CatalogTest::PutRecord(NamespaceId ns, FactSeq fact, std::vector<FactSeq> saw) {
  KvRow row = Record(ns, fact, std::move(saw));
  const auto put = catalog_->PutRecords({&row, 1});
  EXPECT_TRUE(put) << put.error().message;
  EXPECT_EQ(put->stored, std::vector<bool>{true});
  return row;
}

std::vector<RecordSeq> CatalogTest::Usable(NamespaceId ns) {
  std::vector<RecordSeq> records;
  const auto rows = catalog_->RecordsOf(ns, 100'000).value();
  for (const KvRow& row : rows) records.push_back(row.record);
  return records;
}

std::vector<FactSeq> CatalogTest::Queued(NamespaceId ns) {
  std::vector<FactSeq> facts;
  const auto items = catalog_->QueuedFacts(ns).value();
  for (const QueueItem& item : items) facts.push_back(item.fact);
  return facts;
}

std::vector<RecordSeq> CatalogTest::Erasing() {
  std::vector<RecordSeq> records;
  const auto pending = catalog_->PendingErase(100'000).value();
  for (const DeadRecord& dead : pending) records.push_back(dead.record);
  return records;
}

std::vector<std::string> CatalogTest::Findings(bool repair) {
  const auto found = catalog_->Fsck(repair);
  EXPECT_TRUE(found) << found.error().message;
  std::vector<std::string> all;
  if (found)
    for (const FsckFinding& finding : *found) all.push_back((finding.repaired ? "+" : "") + finding.what);
  return all;
}

void CatalogTest::Sql(const std::string& script) {
  sqlite3* db = nullptr;
  const std::string vfs = sqlite::PageCheckVfs("").value();  // so that pages keep their checksums
  ASSERT_EQ(sqlite3_open_v2(file().c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, vfs.c_str()), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(db, script.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_free(error);
  sqlite3_close(db);
}

}  // namespace inferscale
