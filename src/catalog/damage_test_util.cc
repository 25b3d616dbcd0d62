#include "catalog/damage_test_util.h"

#include <fstream>
#include <sstream>

namespace inferscale {

namespace fs = std::filesystem;

std::string Long(const std::string& word) {
  std::string text;
  while (text.size() < 9000) text += word + " ";
  return text;
}

void DamageTest::Fill() {
  for (const std::string& name : names_) {
    const NamespaceId ns = Name(name);
    std::vector<FactSeq> facts;
    for (int i = 0; i < 12; ++i) {
      NewFact fact = FactOf("f" + std::to_string(i), name + " fact number " + std::to_string(i));
      fact.turn = "t" + std::to_string(i % 3);
      fact.metadata = "{\"i\":" + std::to_string(i) + "}";
      facts.push_back(Add(ns, {fact}, {"key" + std::to_string(i), 0}).facts[0].seq);
    }
    Add(ns, {LongFact("long", {"the first part", "the second part"}), FactOf("big", "word " + std::string(200, 'x')),
             FactOf("huge", "word " + Long("yes"))});  // on pages of its own
    const std::vector<NewTurn> turns = {
        {"t0", 0, "Ada", "hello", {}}, {"t1", 1, "Bob", "hi", {}}, {"t2", 2, "Ada", "so", {}}};
    ASSERT_TRUE(catalog().PutTurns(ns, turns));
    (void)catalog().UpdateFact(ns, "f3", {.content = ContentOf("changed text")});
    ASSERT_TRUE(catalog().Supersede(ns, "f4", "f5"));
    Delete(ns, {"f6"});
    for (size_t i = 7; i < 12; ++i) PutRecord(ns, facts[i], {facts[0], facts[1]});
    ASSERT_TRUE(
        catalog().SaveRuns(ns, std::vector<FactRun>{{{}, {{"f0", 1, {1, 2}, 3}, {"f1", 1, {1, 3}, 3}}, 0, true}}));
  }
  ASSERT_TRUE(catalog().SetSetting("setting", "its value"));
  Close();
}

void DamageTest::ReadNamespace(Catalog& catalog, const std::string& name, Contents& all) {
  const auto info = catalog.FindNamespace(name);
  if (!Usable(info, all)) return;
  all.derived["counts " + name] = std::to_string(info->facts) + " " + std::to_string(info->searchable) + " " +
                                  std::to_string(info->words) + " " + std::to_string(info->kv_bytes);
  const auto stats = catalog.ScanFacts(info->id, {.with_vector = true, .parents = true}, [&](const ScanRow& row) {
    std::ostringstream text, vector;
    text << row.fact.version << row.fact.text << row.fact.metadata << row.fact.turn << row.fact.superseded_by;
    all.texts["fact " + name + row.fact.id] = text.str();
    for (const float element : row.vector) vector << element << ' ';
    all.derived["vector " + name + row.fact.id] = vector.str();
    return true;
  });
  if (Usable(stats, all) && stats->damaged_facts + stats->damaged_vectors > 0) all.noticed = true;
  for (int i = 0; i < 12; ++i) {
    const std::string id = "f" + std::to_string(i);
    const auto fact = catalog.GetFact(info->id, id);
    if (Usable(fact, all)) all.texts["found " + name + id] = fact->text;
    const auto history = catalog.History(info->id, id);
    if (!Usable(history, all)) continue;
    for (const HistoryEntry& entry : *history)
      for (const auto& words : {entry.old_text, entry.new_text}) all.old[name + id].insert(words.value_or(""));
  }
  const auto turns = catalog.GetTurns(info->id, 0, 100);
  if (Usable(turns, all))
    for (const TurnRow& turn : *turns) all.texts["turn " + name + turn.id] = turn.speaker + turn.text;
  const std::vector<std::string> terms = {"fact", "number", "changed", "part", "word"};
  const auto postings = catalog.Postings(info->id, terms, 1000);
  if (Usable(postings, all))
    for (size_t i = 0; i < terms.size(); ++i)
      for (const Posting& posting : postings->at(i).postings)
        all.derived["posting " + name + terms[i]] += std::to_string(posting.fact) + " ";
  const auto rows = catalog.UsableRecords(info->id, kTestModel, {});
  if (Usable(rows, all))
    for (const KvRow& row : *rows)
      all.derived["record " + std::to_string(row.record)] =
          std::to_string(row.fact) + name + std::to_string(row.saw.size());
}

std::string DamageTest::Bytes() const {
  std::ifstream in(file(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::unique_ptr<Catalog> DamageTest::OpenFlipped(const std::string& bytes, size_t at, char mask) {
  std::string damaged = bytes;
  damaged[at] = static_cast<char>(damaged[at] ^ mask);
  fs::remove(folder_ / "catalog.db-wal");
  fs::remove(folder_ / "catalog.db-shm");
  std::ofstream(file(), std::ios::binary) << damaged;
  auto opened = OpenSqliteCatalog(folder_);
  return opened ? std::move(*opened) : nullptr;
}

void DamageTest::ExpectNothingMissing(const Contents& found, const Contents& truth) {
  if (found.noticed) return;
  ASSERT_EQ(found.texts, truth.texts);
  ASSERT_EQ(found.old, truth.old);
  ASSERT_EQ(found.derived, truth.derived);
}

Contents DamageTest::Read(Catalog& catalog) const {
  Contents all;
  for (const std::string& name : names_) ReadNamespace(catalog, name, all);
  const auto setting = catalog.GetSetting("setting");
  if (Usable(setting, all)) all.texts["setting"] = setting->value_or("none");
  return all;
}

void DamageTest::ExpectNothingWrong(const Contents& found, const Contents& truth) {
  for (const auto& [name, text] : found.texts) {
    if (name == "setting" && text == "none") continue;  // missing, not wrong
    ASSERT_TRUE(truth.texts.contains(name)) << name;
    ASSERT_EQ(text, truth.texts.at(name)) << name;
  }
  for (const auto& [name, words] : found.old)
    for (const std::string& each : words) ASSERT_TRUE(each.empty() || truth.old.at(name).contains(each)) << name;
  for (const auto& [name, value] : found.derived)
    if (name.starts_with("record ") || (name.starts_with("vector ") && !value.empty())) {
      ASSERT_TRUE(truth.derived.contains(name)) << name;
      ASSERT_EQ(value, truth.derived.at(name)) << name;
    }
}

}  // namespace inferscale
